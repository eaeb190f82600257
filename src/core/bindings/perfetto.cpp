// chakrakit.core: Perfetto packets. The Python side (views/timeline.py) makes the columns.
#include "core/export/perfetto.hpp"

#include <stdexcept>

#include "core/bindings/bind.hpp"

namespace chakra::bind {

namespace {

template <class T>
std::span<const T> view(const In<T>& a) {
    return {a.data(), a.size()};
}

void check_flows(size_t events, const In<int64_t>& offsets, const In<int64_t>& ids) {
    bool fits = offsets.size() == events + 1 && offsets.data()[0] >= 0 &&
                offsets.data()[events] <= static_cast<int64_t>(ids.size());
    for (size_t i = 0; fits && i < events; ++i) fits = offsets.data()[i] <= offsets.data()[i + 1];
    if (!fits) throw std::invalid_argument("offsets of flows do not fit");
}

nb::bytes packets(In<int64_t> time, In<int8_t> type, In<int32_t> track, In<int32_t> name,
                  In<int64_t> value, In<int64_t> out_offsets, In<int64_t> out,
                  In<int64_t> in_offsets, In<int64_t> in, uint32_t sequence) {
    size_t n = time.size();
    if (type.size() != n || track.size() != n || name.size() != n || value.size() != n)
        throw std::invalid_argument("columns of events differ in length");
    check_flows(n, out_offsets, out);
    check_flows(n, in_offsets, in);
    perfetto::Events events{view(time), view(type),       view(track),
                            view(name), view(value),      view(out_offsets),
                            view(out),  view(in_offsets), view(in)};
    std::vector<uint8_t> bytes;
    {
        nb::gil_scoped_release release;
        bytes = perfetto::packets(events, sequence);
    }
    return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void perfetto(nb::module_& m) {
    m.def("perfetto_packets", &packets);
}

}  // namespace chakra::bind
