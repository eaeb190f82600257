// Protobuf messages written by hand, independently of the writer that is under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace unit {

inline std::string varint(uint64_t v) {
    std::string out;
    for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>((v & 0x7f) | 0x80));
    out.push_back(static_cast<char>(v));
    return out;
}

// A message behind its length, as in a .et file.
inline std::string framed(std::string_view message) {
    return varint(message.size()) + std::string(message);
}

struct Message {
    std::string bytes;

    Message& number(uint32_t field, uint64_t value) {
        bytes += varint(field << 3) + varint(value);
        return *this;
    }
    Message& text(uint32_t field, std::string_view value) {
        bytes += varint(field << 3 | 2) + framed(value);
        return *this;
    }
    template <class T>
    Message& fixed(uint32_t field, T value) {
        bytes += varint(field << 3 | (sizeof(T) == 8 ? 1 : 5));
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    operator std::string_view() const { return bytes; }
};

// AttributeProto with an int64_val, an int32_val, a bool_val or a string_val.
inline std::string int_attribute(std::string_view name, int64_t value) {
    return Message().text(1, name).number(9, static_cast<uint64_t>(value)).bytes;
}
inline std::string int32_attribute(std::string_view name, int32_t value) {
    return Message().text(1, name).number(7, static_cast<uint64_t>(int64_t{value})).bytes;
}
inline std::string bool_attribute(std::string_view name, bool value) {
    return Message().text(1, name).number(27, value).bytes;
}
inline std::string text_attribute(std::string_view name, std::string_view value) {
    return Message().text(1, name).text(29, value).bytes;
}

inline const uint8_t* bytes_of(std::string_view s) {
    return reinterpret_cast<const uint8_t*>(s.data());
}

}  // namespace unit
