// Kernels on directed graphs over rows 0..n-1. All of them are iterative: a chain of a million rows
// must not need a million stack frames. Rows are taken as checked: each lies in [0, n).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace chakra::graph {

// One direction of a graph: the neighbours of row v are rows[offsets[v] .. offsets[v + 1]), in
// ascending order of edge, and edges[] says which edge each of them came from.
struct Adjacency {
    std::vector<int64_t> offsets;
    std::vector<int32_t> rows;
    std::vector<int32_t> edges;
};

struct AdjacencyView {
    std::span<const int64_t> offsets;
    std::span<const int32_t> rows;
    std::span<const int32_t> edges;

    int32_t size() const { return static_cast<int32_t>(offsets.size()) - 1; }
    std::span<const int32_t> neighbours(int32_t v) const { return slice(rows, v); }
    std::span<const int32_t> edges_of(int32_t v) const { return slice(edges, v); }

   private:
    std::span<const int32_t> slice(std::span<const int32_t> all, int32_t v) const {
        return all.subspan(offsets[v], offsets[v + 1] - offsets[v]);
    }
};

// Groups edges by their `from` row; called with (src, dst) and with (dst, src).
Adjacency group(int32_t n, std::span<const int32_t> from, std::span<const int32_t> to);

// Rows after their predecessors: those without any first, in ascending order, then first in, first
// out. Rows on a cycle, and those behind one, are left out: the result is shorter than n exactly
// when the graph is cyclic.
std::vector<int32_t> topological_order(const AdjacencyView& out);

// By row: the number of edges on the longest path that leads to it.
std::vector<int32_t> levels(const AdjacencyView& out, std::span<const int32_t> order);

// 1 for every root and everything that can be reached from one.
std::vector<uint8_t> reachable(const AdjacencyView& out, std::span<const int32_t> roots);

// The heaviest path that ends at each row, wherever it begins: its weight, and the row before the
// last (-1 where it begins). `lags` has one entry per edge, or none.
struct LongestPath {
    std::vector<int64_t> finish;
    std::vector<int32_t> predecessor;
};
LongestPath longest_path(const AdjacencyView& in, std::span<const int32_t> order,
                         std::span<const int64_t> weights, std::span<const int64_t> lags);

// 1 for every edge that no other path replaces. Of parallel edges the first is kept.
std::vector<uint8_t> transitive_reduction(const AdjacencyView& out, std::span<const int32_t> order,
                                          std::span<const int32_t> levels);

// One cycle among the rows that `order` leaves out, along its edges from the smallest row; empty if
// there is none.
std::vector<int64_t> find_cycle(int32_t n, std::span<const int32_t> src,
                                std::span<const int32_t> dst, std::span<const int32_t> order);

// before[v] is something that comes before v. Follows it back from `at` until a cycle closes, and
// returns that cycle in forward order from its smallest member.
std::vector<int64_t> close_cycle(std::span<const int64_t> before, int64_t at);

[[noreturn]] void fail_overflow(int64_t a, int64_t b, int32_t row);

// a + b, or std::overflow_error naming the row whose time it would be.
inline int64_t checked_add(int64_t a, int64_t b, int32_t row) {
    using Limits = std::numeric_limits<int64_t>;
    bool fits = b >= 0 ? a <= Limits::max() - b : a >= Limits::min() - b;
    if (!fits) fail_overflow(a, b, row);
    return a + b;
}

}  // namespace chakra::graph
