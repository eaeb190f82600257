// chakrakit.core: graph kernels. The Python side (trace/model/graph.py) checks every array first.
#include "core/graph/graph.hpp"

#include <span>

#include "core/bindings/bind.hpp"

namespace chakra::bind {

namespace {

using graph::AdjacencyView;
using Rows = In<int32_t>;
using Offsets = In<int64_t>;
using Times = In<int64_t>;

template <class T>
std::span<const T> view(const In<T>& a) {
    return {a.data(), a.size()};
}

// Runs a kernel without the interpreter lock.
template <class F>
auto unlocked(F kernel) {
    nb::gil_scoped_release release;
    return kernel();
}

nb::tuple group(int32_t n, Rows from, Rows to) {
    auto a = unlocked([&] { return graph::group(n, view(from), view(to)); });
    return nb::make_tuple(to_numpy(std::move(a.offsets)), to_numpy(std::move(a.rows)),
                          to_numpy(std::move(a.edges)));
}

Out<int32_t> topological_order(Offsets offsets, Rows rows) {
    AdjacencyView out{view(offsets), view(rows), {}};
    return to_numpy(unlocked([&] { return graph::topological_order(out); }));
}

Out<int32_t> levels(Offsets offsets, Rows rows, Rows order) {
    AdjacencyView out{view(offsets), view(rows), {}};
    return to_numpy(unlocked([&] { return graph::levels(out, view(order)); }));
}

Out<uint8_t> reachable(Offsets offsets, Rows rows, Rows roots) {
    AdjacencyView out{view(offsets), view(rows), {}};
    return to_numpy(unlocked([&] { return graph::reachable(out, view(roots)); }));
}

nb::tuple longest_path(Offsets offsets, Rows rows, Rows edges, Rows order, Times weights,
                       Times lags) {
    AdjacencyView in{view(offsets), view(rows), view(edges)};
    auto path =
        unlocked([&] { return graph::longest_path(in, view(order), view(weights), view(lags)); });
    return nb::make_tuple(to_numpy(std::move(path.finish)), to_numpy(std::move(path.predecessor)));
}

Out<uint8_t> transitive_reduction(Offsets offsets, Rows rows, Rows edges, Rows order, Rows levels) {
    AdjacencyView out{view(offsets), view(rows), view(edges)};
    return to_numpy(
        unlocked([&] { return graph::transitive_reduction(out, view(order), view(levels)); }));
}

Out<int64_t> find_cycle(int32_t n, Rows src, Rows dst, Rows order) {
    return to_numpy(
        unlocked([&] { return graph::find_cycle(n, view(src), view(dst), view(order)); }));
}

}  // namespace

void graph(nb::module_& m) {
    m.def("graph_group", &group);
    m.def("graph_topological_order", &topological_order);
    m.def("graph_levels", &levels);
    m.def("graph_reachable", &reachable);
    m.def("graph_longest_path", &longest_path);
    m.def("graph_transitive_reduction", &transitive_reduction);
    m.def("graph_find_cycle", &find_cycle);
}

}  // namespace chakra::bind
