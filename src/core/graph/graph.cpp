#include "core/graph/graph.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

namespace chakra::graph {

namespace {

std::vector<int64_t> offsets_of(int32_t n, std::span<const int32_t> from) {
    std::vector<int64_t> offsets(static_cast<size_t>(n) + 1, 0);
    for (int32_t v : from) ++offsets[v + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    return offsets;
}

std::vector<int32_t> in_degrees(const AdjacencyView& out) {
    std::vector<int32_t> degree(out.size(), 0);
    for (int32_t v : out.rows) ++degree[v];
    return degree;
}

}  // namespace

Adjacency group(int32_t n, std::span<const int32_t> from, std::span<const int32_t> to) {
    Adjacency result{offsets_of(n, from), std::vector<int32_t>(from.size()),
                     std::vector<int32_t>(from.size())};
    std::vector<int64_t> next(result.offsets.begin(), result.offsets.end() - 1);
    for (size_t e = 0; e < from.size(); ++e) {
        int64_t at = next[from[e]]++;
        result.rows[at] = to[e];
        result.edges[at] = static_cast<int32_t>(e);
    }
    return result;
}

std::vector<int32_t> topological_order(const AdjacencyView& out) {
    std::vector<int32_t> missing = in_degrees(out);
    std::vector<int32_t> order;
    order.reserve(missing.size());
    for (int32_t v = 0; v < out.size(); ++v)
        if (missing[v] == 0) order.push_back(v);
    for (size_t at = 0; at < order.size(); ++at)  // the order is its own queue
        for (int32_t next : out.neighbours(order[at]))
            if (--missing[next] == 0) order.push_back(next);
    return order;
}

std::vector<int32_t> levels(const AdjacencyView& out, std::span<const int32_t> order) {
    std::vector<int32_t> level(out.size(), 0);
    for (int32_t v : order)
        for (int32_t next : out.neighbours(v)) level[next] = std::max(level[next], level[v] + 1);
    return level;
}

std::vector<uint8_t> reachable(const AdjacencyView& out, std::span<const int32_t> roots) {
    std::vector<uint8_t> seen(out.size(), 0);
    std::vector<int32_t> stack;
    auto visit = [&](int32_t v) {
        if (seen[v]) return;
        seen[v] = 1;
        stack.push_back(v);
    };
    for (int32_t root : roots) visit(root);
    while (!stack.empty()) {
        int32_t v = stack.back();
        stack.pop_back();
        for (int32_t next : out.neighbours(v)) visit(next);
    }
    return seen;
}

void fail_overflow(int64_t a, int64_t b, int32_t row) {
    throw std::overflow_error("the time of row " + std::to_string(row) + " does not fit 64 bits (" +
                              std::to_string(a) + " and " + std::to_string(b) + " more)");
}

LongestPath longest_path(const AdjacencyView& in, std::span<const int32_t> order,
                         std::span<const int64_t> weights, std::span<const int64_t> lags) {
    LongestPath path{std::vector<int64_t>(weights.size()),
                     std::vector<int32_t>(weights.size(), -1)};
    for (int32_t v : order) {
        int64_t start = 0;
        for (int64_t at = in.offsets[v]; at < in.offsets[v + 1]; ++at) {
            int32_t u = in.rows[at];
            int64_t lag = lags.empty() ? 0 : lags[in.edges[at]];
            int64_t bound = checked_add(path.finish[u], lag, v);
            // A predecessor that costs nothing is still one; of equal ones the first edge's wins.
            if (bound < start || (bound == start && path.predecessor[v] >= 0)) continue;
            start = bound;
            path.predecessor[v] = u;
        }
        path.finish[v] = checked_add(start, weights[v], v);
    }
    return path;
}

namespace {

// Paths that together hold every row once: row v is the position[v]-th of chain[v]. An earlier row
// of a chain reaches every later one.
struct Chains {
    std::vector<int32_t> chain, position;
};

// From each row on to the nearest (by level) child that is still free: a far child would leave all
// rows in between to other chains.
Chains decompose(const AdjacencyView& out, std::span<const int32_t> order,
                 std::span<const int32_t> levels) {
    Chains chains{std::vector<int32_t>(out.size(), -1), std::vector<int32_t>(out.size(), 0)};
    auto next_of = [&](int32_t v) {
        int32_t best = -1;
        for (int32_t next : out.neighbours(v))
            if (chains.chain[next] < 0 && (best < 0 || levels[next] < levels[best])) best = next;
        return best;
    };
    int32_t count = 0;
    for (int32_t first : order) {
        if (chains.chain[first] >= 0) continue;
        for (int32_t v = first, at = 0; v >= 0; v = next_of(v)) {
            chains.chain[v] = count;
            chains.position[v] = at++;
        }
        ++count;
    }
    return chains;
}

// Decides row by row which of its edges to keep: a child that an earlier child (by level) reaches
// is redundant. Rows are first searched, which settles nearly all of them: a search stops at the
// level of the deepest child, when every child is settled, or at a limit. The rows at the limit are
// settled by chains: the first position of a chain that a row reaches says all it reaches there.
class Reduction {
   public:
    Reduction(const AdjacencyView& out, std::span<const int32_t> order,
              std::span<const int32_t> levels)
        : out_(out),
          order_(order),
          levels_(levels),
          keep_(out.rows.size(), 0),
          seen_(out.size(), -1),
          wanted_(out.size(), -1) {}

    std::vector<uint8_t> run() && {
        for (int32_t v = 0; v < out_.size(); ++v) reduce(v);
        if (!undecided_.empty()) decide_by_chains();
        return std::move(keep_);
    }

   private:
    static constexpr int kSearchLimit = 100;  // rows a search may visit
    static constexpr int kBlock = 16;         // chains handled at once: one cache line per row
    using Reach = std::array<int32_t, kBlock>;
    static constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

    struct Child {
        int32_t level, row, edge;
        bool operator<(const Child& o) const {
            return std::tie(level, row, edge) < std::tie(o.level, o.row, o.edge);
        }
    };

    void reduce(int32_t parent) {
        list_children(parent);
        stack_.clear();
        visits_left_ = kSearchLimit;
        for (const Child& child : children_) {
            if (seen_[child.row] == parent_) continue;
            keep_[child.edge] = 1;
            see(child.row);
            search();
            if (unsettled_ > 0 && !stack_.empty()) return undecided_.push_back(parent);
        }
    }

    // Shallowest first; equal edges side by side, the first of them in front.
    void list_children(int32_t parent) {
        parent_ = parent;
        children_.clear();
        auto rows = out_.neighbours(parent);
        auto edges = out_.edges_of(parent);
        for (size_t i = 0; i < rows.size(); ++i)
            children_.push_back({levels_[rows[i]], rows[i], edges[i]});
        std::sort(children_.begin(), children_.end());
        bottom_ = children_.empty() ? 0 : children_.back().level;
        count_wanted();
    }

    void count_wanted() {
        unsettled_ = 0;
        for (const Child& child : children_) {
            unsettled_ += wanted_[child.row] != parent_;
            wanted_[child.row] = parent_;
        }
    }

    void search() {
        while (!stack_.empty() && unsettled_ > 0 && visits_left_ > 0) {
            int32_t v = stack_.back();
            stack_.pop_back();
            --visits_left_;
            for (int32_t next : out_.neighbours(v))
                if (levels_[next] <= bottom_ && seen_[next] != parent_) see(next);
        }
    }

    void see(int32_t v) {
        seen_[v] = parent_;
        unsettled_ -= wanted_[v] == parent_;
        if (levels_[v] < bottom_) stack_.push_back(v);
    }

    void decide_by_chains() {
        chains_ = decompose(out_, order_, levels_);
        int32_t count = number_wanted_chains();
        std::vector<Reach> reach(out_.size());
        for (int32_t base = 0; base < count; base += kBlock) {
            for (size_t i = order_.size(); i-- > 0;)
                reach[order_[i]] = reach_of(order_[i], base, reach);
            for (int32_t parent : undecided_) decide(parent, base, reach);
        }
    }

    // Only chains that an undecided edge leads to matter; they get numbers 0 .. count - 1.
    int32_t number_wanted_chains() {
        std::vector<int32_t> number(out_.size(), -1);
        int32_t count = 0;
        for (int32_t parent : undecided_)
            for (int32_t child : out_.neighbours(parent))
                if (int32_t& n = number[chains_.chain[child]]; n < 0) n = count++;
        for (int32_t& c : chains_.chain) c = number[c];
        return count;
    }

    // Where among the block's chains row v is, or -1.
    int32_t lane(int32_t v, int32_t base) const {
        int32_t c = chains_.chain[v];
        return c >= base && c < base + kBlock ? c - base : -1;
    }

    static void merge(Reach& into, const Reach& from) {
        for (int i = 0; i < kBlock; ++i) into[i] = std::min(into[i], from[i]);
    }

    Reach reach_of(int32_t v, int32_t base, const std::vector<Reach>& reach) const {
        Reach mine;
        mine.fill(kNever);
        for (int32_t next : out_.neighbours(v)) merge(mine, reach[next]);
        if (int32_t at = lane(v, base); at >= 0) mine[at] = chains_.position[v];
        return mine;
    }

    void decide(int32_t parent, int32_t base, const std::vector<Reach>& reach) {
        list_children(parent);
        Reach others;  // what the children before this one reach
        others.fill(kNever);
        for (const Child& child : children_) {
            if (int32_t at = lane(child.row, base); at >= 0)
                keep_[child.edge] = others[at] > chains_.position[child.row];
            merge(others, reach[child.row]);
        }
    }

    const AdjacencyView& out_;
    std::span<const int32_t> order_, levels_;
    std::vector<uint8_t> keep_;
    std::vector<int32_t> seen_, wanted_;  // hold the parent that last saw, or asked for, the row
    std::vector<int32_t> stack_, undecided_;
    std::vector<Child> children_;
    Chains chains_;
    int32_t parent_ = -1;
    int32_t bottom_ = 0;
    int64_t unsettled_ = 0;
    int visits_left_ = 0;
};

}  // namespace

std::vector<uint8_t> transitive_reduction(const AdjacencyView& out, std::span<const int32_t> order,
                                          std::span<const int32_t> levels) {
    return Reduction(out, order, levels).run();
}

std::vector<int64_t> find_cycle(int32_t n, std::span<const int32_t> src,
                                std::span<const int32_t> dst, std::span<const int32_t> order) {
    std::vector<uint8_t> ordered(n, 0);
    for (int32_t v : order) ordered[v] = 1;
    // Each row that was left out has a predecessor that was left out too.
    std::vector<int64_t> before(n, -1);
    for (size_t e = 0; e < src.size(); ++e)
        if (!ordered[src[e]] && before[dst[e]] < 0) before[dst[e]] = src[e];
    auto first = std::find(ordered.begin(), ordered.end(), 0);
    if (first == ordered.end()) return {};
    return close_cycle(before, first - ordered.begin());
}

std::vector<int64_t> close_cycle(std::span<const int64_t> before, int64_t at) {
    std::vector<uint8_t> seen(before.size(), 0);
    for (; !seen[at]; at = before[at]) seen[at] = 1;
    std::vector<int64_t> cycle{at};
    for (int64_t v = before[at]; v != at; v = before[v]) cycle.push_back(v);
    std::reverse(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    return cycle;
}

}  // namespace chakra::graph
