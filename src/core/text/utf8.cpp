#include "core/text/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace chakra {

namespace {

bool is_continuation(uint8_t b) {
    return (b & 0xc0) == 0x80;
}

// Length of the sequence that starts at p, 0 if there is none (overlong, surrogate, cut off).
size_t sequence_length(const uint8_t* p, size_t left) {
    uint8_t b = p[0];
    if (b < 0x80) return 1;
    if (b < 0xc2) return 0;
    if (b < 0xe0) return left >= 2 && is_continuation(p[1]) ? 2 : 0;
    if (b < 0xf0) {
        if (left < 3 || !is_continuation(p[1]) || !is_continuation(p[2])) return 0;
        if (b == 0xe0 && p[1] < 0xa0) return 0;
        if (b == 0xed && p[1] > 0x9f) return 0;
        return 3;
    }
    if (b > 0xf4 || left < 4) return 0;
    if (!is_continuation(p[1]) || !is_continuation(p[2]) || !is_continuation(p[3])) return 0;
    if (b == 0xf0 && p[1] < 0x90) return 0;
    if (b == 0xf4 && p[1] > 0x8f) return 0;
    return 4;
}

}  // namespace

bool is_utf8(std::string_view s) {
    const auto* p = reinterpret_cast<const uint8_t*>(s.data());
    const uint8_t* end = p + s.size();
    while (p < end) {
        // Nearly all names are ASCII: look at eight bytes at a time.
        uint64_t word;
        while (end - p >= 8 && (std::memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0))
            p += 8;
        if (p == end) break;
        size_t n = sequence_length(p, static_cast<size_t>(end - p));
        if (n == 0) return false;
        p += n;
    }
    return true;
}

}  // namespace chakra
