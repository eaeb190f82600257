// Writes Perfetto's TrackEvent packets from columns: slices, instants and counters on numbered
// tracks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace chakra::perfetto {

// One entry per event, in the order in which they are written. `type` is TrackEvent.Type: 1 begins
// a slice, 2 ends one, 3 is an instant, 4 a counter's value. `name` is the number of an interned
// name, 0 for none. The flows that leave event i are out[out_offsets[i] .. out_offsets[i + 1]);
// those that end there are found the same way in `in`.
struct Events {
    std::span<const int64_t> time;
    std::span<const int8_t> type;
    std::span<const int32_t> track;
    std::span<const int32_t> name;
    std::span<const int64_t> value;
    std::span<const int64_t> out_offsets;
    std::span<const int64_t> out;
    std::span<const int64_t> in_offsets;
    std::span<const int64_t> in;
};

// The packets one after another, which is all that a trace is.
std::vector<uint8_t> packets(const Events& events, uint32_t sequence);

}  // namespace chakra::perfetto
