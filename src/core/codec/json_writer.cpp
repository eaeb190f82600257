#include "core/codec/json_writer.hpp"

#include <algorithm>
#include <cstring>

namespace chakra {

namespace {

constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool needs_escape(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

// Whether one of eight characters needs an escape: a byte less than n borrows from its high bit.
bool any_needs_escape(const char* p) {
    constexpr uint64_t kOnes = 0x0101010101010101u;
    uint64_t x;
    std::memcpy(&x, p, 8);
    uint64_t quote = x ^ kOnes * '"', slash = x ^ kOnes * '\\';
    uint64_t borrowed =
        ((x - kOnes * 0x20) & ~x) | ((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash);
    return borrowed & kHighBits;
}

// How many characters from the start need none.
size_t plain_length(std::string_view s) {
    size_t i = 0;
    while (i + 8 <= s.size() && !any_needs_escape(s.data() + i)) i += 8;
    while (i < s.size() && !needs_escape(s[i])) ++i;
    return i;
}

}  // namespace

void Json::escape(unsigned char c) {
    static const char* hex = "0123456789abcdef";
    switch (c) {
        case '"': return out_.append("\\\"");
        case '\\': return out_.append("\\\\");
        case '\n': return out_.append("\\n");
        case '\t': return out_.append("\\t");
        default:
            out_.append("\\u00");
            out_.push(hex[c >> 4]);
            out_.push(hex[c & 15]);
    }
}

void Json::string(std::string_view s) {
    out_.push('"');
    for (;;) {
        size_t n = plain_length(s);
        out_.append(s.substr(0, n));
        if (n == s.size()) break;
        escape(static_cast<unsigned char>(s[n]));
        s.remove_prefix(n + 1);
    }
    out_.push('"');
}

void Json::base64(std::string_view s) {
    out_.push('"');
    for (size_t i = 0; i < s.size(); i += 3) {
        size_t n = std::min<size_t>(3, s.size() - i);
        uint32_t v = 0;
        for (size_t k = 0; k < 3; ++k)
            v = v << 8 | (k < n ? static_cast<unsigned char>(s[i + k]) : 0);
        for (size_t k = 0; k < 4; ++k) out_.push(k <= n ? kBase64[v >> (18 - 6 * k) & 63] : '=');
    }
    out_.push('"');
}

}  // namespace chakra
