#include "core/wire.hpp"

namespace chakra::wire {

uint64_t Cursor::long_varint() {
    const uint8_t* start = p_;
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p_ == end_) fail("varint runs past the end of its message", start);
        uint8_t b = *p_++;
        // Bits past the 64th are dropped, as the protobuf runtime does.
        v |= static_cast<uint64_t>(b & 0x7f) << shift;
        if (b < 0x80) return v;
    }
    fail("varint is longer than 10 bytes", start);
}

void Cursor::skip_group(uint32_t field, int depth) {
    if (depth >= 100) fail("groups nested more than 100 deep");
    for (;;) {
        uint32_t t = tag();
        if ((t & 7) == kEndGroup) {
            if (t >> 3 != field) fail("group ends with another group's tag");
            return;
        }
        skip(t, depth + 1);
    }
}

}  // namespace chakra::wire
