// Copies and comparisons of a few dozen bytes without a function call: most strings of a trace are
// that short.
#pragma once

#include <cstdint>
#include <cstring>

namespace chakra {

constexpr uint64_t kHighBits = 0x8080808080808080u;

namespace detail {
template <class T>
inline T move_word(char* to, const char* from) {
    T v;
    std::memcpy(&v, from, sizeof v);
    std::memcpy(to, &v, sizeof v);
    return v;
}
}  // namespace detail

// Copies n bytes; the result has a high bit set if any byte is not ASCII. The last words overlap
// instead of running over: no byte outside [0, n) is touched.
inline uint64_t copy_and_scan(char* to, const char* from, size_t n) {
    using detail::move_word;
    if (n >= 8) {
        uint64_t seen = 0;
        size_t i = 0;
        for (; i + 16 <= n; i += 16)
            seen |= move_word<uint64_t>(to + i, from + i) |
                    move_word<uint64_t>(to + i + 8, from + i + 8);
        if (i + 8 <= n) seen |= move_word<uint64_t>(to + i, from + i);
        return seen | move_word<uint64_t>(to + n - 8, from + n - 8);
    }
    if (n >= 4)
        return move_word<uint32_t>(to, from) | move_word<uint32_t>(to + n - 4, from + n - 4);
    uint64_t seen = 0;
    for (size_t i = 0; i < n; ++i) seen |= static_cast<uint8_t>(to[i] = from[i]);
    return seen;
}

inline void copy_short(void* to, const void* from, size_t n) {
    if (n <= 256)
        copy_and_scan(static_cast<char*>(to), static_cast<const char*>(from), n);
    else
        std::memcpy(to, from, n);
}

inline bool equal_short(const char* a, const char* b, size_t n) {
    uint64_t x, y;
    if (n >= 8) {
        for (size_t i = 0; i + 8 <= n; i += 8) {
            std::memcpy(&x, a + i, 8);
            std::memcpy(&y, b + i, 8);
            if (x != y) return false;
        }
        std::memcpy(&x, a + n - 8, 8);
        std::memcpy(&y, b + n - 8, 8);
        return x == y;
    }
    for (size_t i = 0; i < n; ++i)
        if (a[i] != b[i]) return false;
    return true;
}

}  // namespace chakra
