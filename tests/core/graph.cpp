#include "core/graph/graph.hpp"

#include <limits>
#include <random>
#include <stdexcept>

#include "harness.hpp"

using namespace chakra::graph;

namespace {

using Rows = std::vector<int32_t>;

struct Graph {
    int32_t n;
    Rows src, dst;
    Adjacency out = group(n, src, dst), in = group(n, dst, src);

    AdjacencyView outgoing() const { return {out.offsets, out.rows, out.edges}; }
    AdjacencyView incoming() const { return {in.offsets, in.rows, in.edges}; }
    Rows order() const { return topological_order(outgoing()); }
};

// Whether a way of two edges or more leads along edge `e`.
bool replaced(const Graph& g, size_t e) {
    Rows src, dst;
    for (size_t f = 0; f < g.src.size(); ++f)
        if (g.src[f] != g.src[e] || g.dst[f] != g.dst[e])
            src.push_back(g.src[f]), dst.push_back(g.dst[f]);
    Graph rest{g.n, src, dst};
    return reachable(rest.outgoing(), Rows{g.src[e]})[g.dst[e]];
}

bool given_before(const Graph& g, size_t e) {
    for (size_t f = 0; f < e; ++f)
        if (g.src[f] == g.src[e] && g.dst[f] == g.dst[e]) return true;
    return false;
}

}  // namespace

STORY("edges are grouped by row, in order of edge") {
    Graph g{3, {2, 0, 2, 0}, {1, 1, 0, 2}};
    EXPECT(g.out.offsets, {0, 2, 2, 4});
    EXPECT(g.out.rows, {1, 2, 1, 0});
    EXPECT(g.out.edges, {1, 3, 0, 2});
    EXPECT(g.in.offsets, {0, 1, 3, 4});
}

STORY("rows come after all their predecessors, ascending where that leaves a choice") {
    EXPECT(Graph{5, {4, 4, 2}, {0, 2, 1}}.order(), {3, 4, 0, 2, 1});
    EXPECT(Graph{0, {}, {}}.order(), {});
    EXPECT(Graph{2, {0, 0}, {1, 1}}.order(), {0, 1});  // an edge given twice
}

STORY("a cycle leaves its rows, and those behind it, out of the order") {
    Graph g{5, {0, 1, 2, 3, 2}, {1, 2, 3, 1, 4}};
    EXPECT(g.order(), {0});
    EXPECT(find_cycle(g.n, g.src, g.dst, g.order()), {1, 2, 3});
    Graph self{2, {1}, {1}};
    EXPECT(find_cycle(2, self.src, self.dst, self.order()), {1});
    Graph none{2, {0}, {1}};
    EXPECT(find_cycle(2, none.src, none.dst, none.order()), {});
}

STORY("a chain of a hundred thousand rows needs no deep stack") {
    Rows src, dst;
    for (int32_t v = 0; v + 1 < 100000; ++v) src.push_back(v), dst.push_back(v + 1);
    Graph g{100000, src, dst};
    EXPECT(levels(g.outgoing(), g.order()).back(), 99999);
    EXPECT(reachable(g.outgoing(), Rows{50000})[99999], 1);
    EXPECT(reachable(g.outgoing(), Rows{50000})[49999], 0);
}

STORY("a level is the number of edges on the longest way") {
    Graph g{4, {0, 1, 0, 2}, {1, 2, 3, 3}};
    EXPECT(levels(g.outgoing(), g.order()), {0, 1, 2, 3});
}

STORY("the heaviest path wins, of equal ones that of the first edge") {
    Graph g{4, {0, 1, 2}, {3, 3, 3}};
    std::vector<int64_t> weights{5, 7, 7, 1}, lags{10, 0, 0};
    LongestPath plain = longest_path(g.incoming(), g.order(), weights, {});
    EXPECT(plain.finish, {5, 7, 7, 8});
    EXPECT(plain.predecessor, {-1, -1, -1, 1});
    LongestPath lagged = longest_path(g.incoming(), g.order(), weights, lags);
    EXPECT(lagged.finish.back(), 16);
    EXPECT(lagged.predecessor.back(), 0);
}

STORY("a path too heavy for 64 bits names its row") {
    Graph g{2, {0}, {1}};
    std::vector<int64_t> weights{std::numeric_limits<int64_t>::max(), 1};
    REFUSES(std::overflow_error, "row 1", longest_path(g.incoming(), g.order(), weights, {}));
}

STORY("an edge is redundant exactly if another path replaces it") {
    Graph g{4, {0, 0, 1, 0, 1}, {1, 2, 2, 3, 2}};
    EXPECT(transitive_reduction(g.outgoing(), g.order(), levels(g.outgoing(), g.order())),
           {1, 0, 1, 1, 0});
}

STORY("reduction agrees with trying every edge, also where searches are long") {
    std::mt19937 random(1);
    for (int32_t n : {12, 60, 250}) {  // 250 rows go past the limit of a search
        Rows src, dst;
        for (int32_t e = 0; e < 4 * n; ++e) {
            int32_t a = static_cast<int32_t>(random() % n), b = static_cast<int32_t>(random() % n);
            if (a != b) src.push_back(std::min(a, b)), dst.push_back(std::max(a, b));
        }
        Graph g{n, src, dst};
        auto keep = transitive_reduction(g.outgoing(), g.order(), levels(g.outgoing(), g.order()));
        int wrong = 0;
        for (size_t e = 0; e < src.size(); ++e)
            wrong += keep[e] != !(given_before(g, e) || replaced(g, e));
        EXPECT(wrong, 0);
    }
}
