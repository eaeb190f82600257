#include "core/readers/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace chakra {

namespace {

bool blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool starts_value(char c) {
    return c == '"' || c == '{' || c == '[' || c == '-' || (c >= '0' && c <= '9') || c == 't' ||
           c == 'f' || c == 'n';
}

void append_utf8(std::string& out, uint32_t c) {
    if (c < 0x80) {
        out += static_cast<char>(c);
    } else if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        out += static_cast<char>(0xE0 | (c >> 12));
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else {
        out += static_cast<char>(0xF0 | (c >> 18));
        out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    }
}

bool hex4(std::string_view raw, size_t at, uint32_t& out) {
    if (at + 4 > raw.size()) return false;
    auto [end, err] = std::from_chars(raw.data() + at, raw.data() + at + 4, out, 16);
    return err == std::errc() && end == raw.data() + at + 4;
}

// Reads \uXXXX (and a second one where the first is half a pair); returns characters taken.
size_t unescape_unicode(std::string_view raw, size_t at, std::string& out) {
    uint32_t c = 0;
    if (!hex4(raw, at + 2, c)) return 0;
    uint32_t low = 0;
    bool pair = c >= 0xD800 && c < 0xDC00 && raw.substr(at + 6, 2) == "\\u" &&
                hex4(raw, at + 8, low) && low >= 0xDC00 && low < 0xE000;
    if (pair) c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
    append_utf8(out, c);
    return pair ? 12 : 6;
}

char simple_escape(char c) {
    switch (c) {
        case 'n': return '\n';
        case 't': return '\t';
        case 'r': return '\r';
        case 'b': return '\b';
        case 'f': return '\f';
        case '"': return '"';
        case '\\': return '\\';
        case '/': return '/';
        default: return 0;
    }
}

constexpr int64_t kLatest = std::numeric_limits<int64_t>::max();

// Digits up to the third decimal, which the fourth rounds; kLatest where 64 bits cannot hold them.
std::string_view unquoted(std::string_view raw) {
    return !raw.empty() && raw.front() == '"' ? raw.substr(1, raw.size() - 2) : raw;
}

int64_t nanoseconds_of_decimal(std::string_view micros) {
    uint64_t ns = 0;
    int decimals = -1;
    bool round_up = false;
    for (char c : micros) {
        if (c == '.') {
            decimals = 0;
        } else if (c >= '0' && c <= '9' && decimals < 3) {
            if (ns > kLatest / 10) return kLatest;
            ns = ns * 10 + static_cast<uint64_t>(c - '0');
            if (decimals >= 0) ++decimals;
        } else {
            round_up = c >= '5' && c <= '9';
            break;
        }
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; ++i) {
        if (ns > kLatest / 10) return kLatest;
        ns *= 10;
    }
    return static_cast<int64_t>(std::min<uint64_t>(ns + round_up, kLatest));
}

int64_t nanoseconds_of_exponent(std::string_view micros) {
    double ns = std::strtod(std::string(micros).c_str(), nullptr) * 1000.0;
    return ns < 9.2e18 ? std::llround(ns) : kLatest;
}

}  // namespace

void JsonCursor::blanks() {
    while (pos_ < text_.size() && blank(text_[pos_])) ++pos_;
}

char JsonCursor::peek() {
    blanks();
    if (pos_ >= text_.size()) fail();
    return text_[pos_];
}

bool JsonCursor::accept(char c) {
    if (peek() != c) return false;
    ++pos_;
    return true;
}

void JsonCursor::expect(char c) {
    if (!accept(c)) fail();
}

// Can the quote at `quote` close a string? Only where a separator and then a value or key follow.
bool JsonCursor::ends_string(size_t quote) const {
    bool escaped = false;
    for (size_t i = quote; i > 0 && text_[i - 1] == '\\'; --i) escaped = !escaped;
    size_t i = quote + 1;
    while (i < text_.size() && blank(text_[i])) ++i;
    if (i >= text_.size()) return !escaped;
    char c = text_[i];
    if (c == ',') {
        ++i;
        while (i < text_.size() && blank(text_[i])) ++i;
        if (escaped) return i < text_.size() && text_[i] == '"';
        return i < text_.size() && starts_value(text_[i]);
    }
    return !escaped && (c == '}' || c == ']' || c == ':');
}

size_t JsonCursor::string_end(size_t from) const {
    if (tolerant_) {
        for (size_t q = text_.find('"', from); q != text_.npos; q = text_.find('"', q + 1))
            if (ends_string(q)) return q;
        return text_.npos;
    }
    for (size_t i = from; i < text_.size(); ++i) {
        if (text_[i] == '"') return i;
        if (text_[i] == '\\') ++i;
    }
    return text_.npos;
}

std::string_view JsonCursor::string() {
    expect('"');
    size_t begin = pos_;
    size_t end = string_end(begin);
    if (end == text_.npos) {
        pos_ = text_.size();
        fail();
    }
    pos_ = end + 1;
    return text_.substr(begin, end - begin);
}

std::string_view JsonCursor::number() {
    blanks();
    size_t begin = pos_;
    while (pos_ < text_.size()) {
        char c = text_[pos_];
        if (c == ',' || c == '}' || c == ']' || c == ':' || blank(c)) break;
        if (c == '"' || c == '{' || c == '[') fail();
        ++pos_;
    }
    if (pos_ == begin) fail();
    return text_.substr(begin, pos_ - begin);
}

void JsonCursor::skip_nested() {
    size_t depth = 0;
    do {
        char c = peek();
        if (c == '"') {
            string();
            continue;
        }
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        ++pos_;
    } while (depth > 0);
}

std::string_view JsonCursor::value() {
    char c = peek();
    size_t begin = pos_;
    if (c == '"')
        string();
    else if (c == '{' || c == '[')
        skip_nested();
    else
        number();
    return text_.substr(begin, pos_ - begin);
}

int64_t JsonCursor::integer(int64_t fallback) {
    return to_integer(value(), fallback);
}

std::string unescape(std::string_view raw) {
    std::string out;
    out.reserve(raw.size());
    for (size_t i = 0; i < raw.size();) {
        if (raw[i] == '\\' && i + 1 < raw.size()) {
            if (raw[i + 1] == 'u') {
                if (size_t taken = unescape_unicode(raw, i, out)) {
                    i += taken;
                    continue;
                }
            } else if (char c = simple_escape(raw[i + 1])) {
                out += c;
                i += 2;
                continue;
            }
        }
        out += raw[i++];
    }
    return out;
}

int64_t to_integer(std::string_view raw, int64_t fallback) {
    if (!raw.empty() && raw.front() == '"') raw.remove_prefix(1);
    uint64_t wide = 0;
    if (!raw.empty() && raw.front() == '-') {
        int64_t v = 0;
        auto r = std::from_chars(raw.data(), raw.data() + raw.size(), v);
        return r.ec == std::errc() ? v : fallback;
    }
    auto r = std::from_chars(raw.data(), raw.data() + raw.size(), wide);
    return r.ec == std::errc() ? static_cast<int64_t>(wide) : fallback;
}

bool is_decimal(std::string_view raw) {
    raw = unquoted(raw);
    bool digits = false, point = false, exponent = false;
    for (size_t i = 0; i < raw.size(); ++i) {
        char c = raw[i];
        bool begins = i == 0 || raw[i - 1] == 'e' || raw[i - 1] == 'E';
        if (c >= '0' && c <= '9')
            digits = true;
        else if (c == '.' && !point && !exponent)
            point = true;
        else if ((c == 'e' || c == 'E') && digits && !exponent)
            exponent = true, digits = false;
        else if (!(begins && (c == '-' || c == '+')))
            return false;
    }
    return digits;
}

int64_t to_nanoseconds(std::string_view micros) {
    micros = unquoted(micros);
    bool negative = !micros.empty() && micros.front() == '-';
    int64_t ns = micros.find_first_of("eE") == micros.npos
                     ? nanoseconds_of_decimal(micros.substr(negative ? 1 : 0))
                     : nanoseconds_of_exponent(micros.substr(negative ? 1 : 0));
    return negative ? -ns : ns;
}

}  // namespace chakra
