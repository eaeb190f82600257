// The ways of messages through machines.
#include "core/sim/ways.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "core/bindings/bind.hpp"

namespace chakra::bind {

namespace {

using FabricOf = std::shared_ptr<sim::Fabric>;
// Fabric, size, inner, joins, first link, links of a copy, first attachment.
using Level = std::tuple<FabricOf, int64_t, int64_t, int, int64_t, int64_t, int64_t>;

FabricOf graph_of(int64_t vertices, In<int64_t> src, In<int64_t> dst, In<double> bandwidth,
                  std::vector<std::string> names) {
    return sim::graph(vertices, own(src), own(dst), own(bandwidth), std::move(names));
}

void make_ways(sim::Ways* self, const std::vector<Level>& levels, int64_t devices) {
    std::vector<sim::Dimension> dimensions;
    for (const auto& [fabric, size, inner, joins, first, copy, attached] : levels)
        dimensions.push_back(
            {fabric, size, inner, static_cast<sim::Joins>(joins), first, copy, attached});
    new (self) sim::Ways(std::move(dimensions), devices);
}

// Half a gigabyte: an exchange of 4,096 devices in nodes of eight, or of 700 on one ring.
constexpr size_t kMostLinks = size_t{1} << 26;

nb::tuple routes(const sim::Ways& ways, In<int64_t> src, In<int64_t> dst) {
    if (src.size() != dst.size()) throw std::invalid_argument("as many sources as destinations");
    sim::Way links;
    std::vector<int64_t> offsets{0};
    offsets.reserve(src.size() + 1);
    for (size_t i = 0; i < src.size(); ++i) {
        ways.append(src(i), dst(i), links);
        if (links.size() > kMostLinks)
            throw std::length_error(
                "the ways between " + std::to_string(src.size()) +
                " pairs of devices have more than " + std::to_string(kMostLinks) +
                " links, which would not fit in memory; choose an algorithm with "
                "fewer pairs, such as ring, or fewer ranks");
        offsets.push_back(std::ssize(links));
    }
    return nb::make_tuple(to_numpy(std::move(offsets)), to_numpy(std::move(links)));
}

Out<double> sums(In<int64_t> offsets, In<int64_t> links, In<double> values) {
    std::vector<double> out;
    std::span<const double> each(values.data(), values.size());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
        std::span<const int64_t> way(links.data() + offsets(i), links.data() + offsets(i + 1));
        out.push_back(sim::sum_over(way, each));
    }
    return to_numpy(std::move(out));
}

}  // namespace

void ways(nb::module_& m) {
    using nb::literals::operator""_a;
    nb::class_<sim::Fabric>(m, "SimFabric");
    m.def("sim_full", &sim::full, "ports"_a);
    m.def("sim_ring", &sim::ring, "ports"_a, "closed"_a);
    m.def("sim_tree", &sim::tree, "arity"_a, "uplinks"_a, "switches"_a, "modulo"_a);
    m.def("sim_dragonfly", &sim::dragonfly, "groups"_a, "routers"_a, "hosts"_a);
    m.def("sim_graph", &graph_of, "vertices"_a, "src"_a, "dst"_a, "bandwidth"_a, "names"_a);
    nb::class_<sim::Ways>(m, "SimWays")
        .def("__init__", &make_ways, "levels"_a, "devices"_a)
        .def("routes", &routes, "src"_a, "dst"_a);
    m.def("sim_sums", &sums, "offsets"_a, "links"_a, "values"_a);
}

}  // namespace chakra::bind
