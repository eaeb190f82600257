#include "core/export/perfetto.hpp"

#include "core/wire/back_writer.hpp"

namespace chakra::perfetto {

namespace {

constexpr uint32_t tag(uint32_t field, uint32_t wire) {
    return field << 3 | wire;
}
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2;

// Fields of Trace, TracePacket and TrackEvent.
constexpr uint32_t kPacket = tag(1, kBytes);
constexpr uint32_t kTimestamp = tag(8, kVarint), kSequence = tag(10, kVarint),
                   kEvent = tag(11, kBytes), kFlags = tag(13, kVarint);
constexpr uint32_t kType = tag(9, kVarint), kName = tag(10, kVarint), kTrack = tag(11, kVarint),
                   kCounter = tag(30, kVarint), kFlow = tag(47, kFixed64),
                   kTerminating = tag(48, kFixed64);

constexpr uint64_t kNeedsInterned = 2;
constexpr int8_t kCounterType = 4;
constexpr size_t kMost = 16 * BackWriter::kVarint;

void number(BackWriter& w, uint32_t tag, uint64_t value) {
    w.varint(value);
    w.varint(tag);
}

void flows(BackWriter& w, uint32_t tag, std::span<const int64_t> offsets,
           std::span<const int64_t> ids, size_t event) {
    for (int64_t i = offsets[event + 1]; i-- > offsets[event];) {
        w.reserve(BackWriter::kField);
        w.fixed(static_cast<uint64_t>(ids[static_cast<size_t>(i)]));
        w.varint(tag);
    }
}

// From the last field to the first: the writer goes backwards.
void packet(BackWriter& w, const Events& e, size_t i, uint32_t sequence) {
    size_t whole = w.size();
    w.reserve(kMost);
    bool named = e.name[i] > 0;
    if (named) number(w, kFlags, kNeedsInterned);
    size_t event = w.size();
    flows(w, kTerminating, e.in_offsets, e.in, i);
    flows(w, kFlow, e.out_offsets, e.out, i);
    w.reserve(kMost);
    if (e.type[i] == kCounterType) number(w, kCounter, static_cast<uint64_t>(e.value[i]));
    number(w, kTrack, static_cast<uint64_t>(e.track[i]));
    if (named) number(w, kName, static_cast<uint64_t>(e.name[i]));
    number(w, kType, static_cast<uint64_t>(e.type[i]));
    w.close(event, kEvent);
    number(w, kSequence, sequence);
    number(w, kTimestamp, static_cast<uint64_t>(e.time[i]));
    w.close(whole, kPacket);
}

}  // namespace

std::vector<uint8_t> packets(const Events& events, uint32_t sequence) {
    BackWriter w(events.time.size() * 24 + kMost);
    for (size_t i = events.time.size(); i-- > 0;) packet(w, events, i, sequence);
    return {w.begin(), w.begin() + w.size()};
}

}  // namespace chakra::perfetto
