// JSON tokens appended to a buffer.
#pragma once

#include <charconv>
#include <cmath>
#include <string_view>

#include "core/memory/buffer.hpp"

namespace chakra {

// `key` and `next` put the commas between members and elements.
class Json {
   public:
    explicit Json(Buffer<char>& out) : out_(out) {}

    void open(char bracket) {
        out_.push(bracket);
        first_ = true;
    }
    void close(char bracket) {
        out_.push(bracket);
        first_ = false;
    }
    void next() {
        if (!first_) out_.push(',');
        first_ = false;
    }
    void key(std::string_view k) {
        out_.reserve(out_.size() + k.size() + 4);
        if (!first_) out_.push_reserved(',');
        first_ = false;
        out_.push_reserved('"');
        out_.append(k);
        out_.push_reserved('"');
        out_.push_reserved(':');
    }
    template <class T>
    void number(T v) {
        char text[32];
        auto end = std::to_chars(text, text + sizeof text, v).ptr;
        out_.append(text, static_cast<size_t>(end - text));
    }
    template <class T>
    void real(T v) {
        if (v == 0 && std::signbit(v)) return plain("-0.0");  // a reader takes -0 for the integer
        if (std::isfinite(v)) return number(v);
        plain(std::isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
    void plain(std::string_view s) { out_.append(s); }
    void string(std::string_view s);
    void base64(std::string_view s);

   private:
    void escape(unsigned char c);
    Buffer<char>& out_;
    bool first_ = true;
};

}  // namespace chakra
