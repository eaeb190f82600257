#include "core/wire/wire.hpp"

namespace chakra::wire {

Cursor::Varint Cursor::long_varint(const uint8_t* p, const uint8_t* end, const uint8_t* origin) {
    const uint8_t* start = p;
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p == end) fail("varint runs past the end of its message", start, origin);
        uint8_t b = *p++;
        // Bits past the 64th are dropped, as the protobuf runtime does.
        v |= static_cast<uint64_t>(b & 0x7f) << shift;
        if (b < 0x80) return {v, p};
    }
    fail("varint is longer than 10 bytes", start, origin);
}

const uint8_t* Cursor::after_group(uint32_t field, int depth, const uint8_t* p, const uint8_t* end,
                                   const uint8_t* origin) {
    Cursor c(p, end, origin);
    if (depth >= 100) c.fail("groups nested more than 100 deep");
    for (;;) {
        uint32_t t = c.tag();
        if ((t & 7) == kEndGroup) {
            if (t >> 3 != field) c.fail("group ends with another group's tag");
            return c.at();
        }
        c.skip(t, depth + 1);
    }
}

void Cursor::fail(const char* what, const uint8_t* where, const uint8_t* origin) {
    throw FormatError(what, where - origin);
}

void Cursor::fail_length(uint64_t n, const uint8_t* where, const uint8_t* origin) {
    throw FormatError("length " + std::to_string(n) + " runs past the end of its message",
                      where - origin);
}

}  // namespace chakra::wire
