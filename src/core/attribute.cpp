#include "core/attribute.hpp"

#include <bit>

namespace chakra {

namespace {

enum Member : uint32_t {
    kDouble = 3,
    kFloat = 5,
    kInt32 = 7,
    kInt64 = 9,
    kUint32 = 11,
    kUint64 = 13,
    kSint32 = 15,
    kSint64 = 17,
    kFixed32 = 19,
    kFixed64 = 21,
    kSfixed32 = 23,
    kSfixed64 = 25,
    kBool = 27,
    kString = 29,
    kBytes = 31,
    kLast = 32
};

bool is_list(uint32_t member) {
    return member != 0 && member % 2 == 0;
}

// A list's elements are encoded as the scalar member before it.
uint32_t scalar_of(uint32_t member) {
    return is_list(member) ? member - 1 : member;
}

bool is_real(uint32_t scalar) {
    return scalar == kDouble || scalar == kFloat;
}
bool is_integer(uint32_t scalar) {
    return scalar >= kInt32 && scalar <= kBool;
}

wire::Type wire_type(uint32_t member) {
    if (is_list(member)) return wire::kBytes;
    switch (member) {
        case kDouble:
        case kFixed64:
        case kSfixed64: return wire::kFixed64;
        case kFloat:
        case kFixed32:
        case kSfixed32: return wire::kFixed32;
        case kString:
        case kBytes: return wire::kBytes;
        default: return wire::kVarint;
    }
}

int64_t read_int(wire::Cursor& in, uint32_t scalar) {
    switch (scalar) {
        case kInt32: return static_cast<int32_t>(in.varint());
        case kUint32: return static_cast<uint32_t>(in.varint());
        case kSint32: return static_cast<int32_t>(wire::zigzag_decode(in.varint() & 0xffffffff));
        case kSint64: return wire::zigzag_decode(in.varint());
        case kFixed32: return in.fixed32();
        case kSfixed32: return static_cast<int32_t>(in.fixed32());
        case kFixed64:
        case kSfixed64: return static_cast<int64_t>(in.fixed64());
        case kBool: return in.varint() != 0;
        default: return static_cast<int64_t>(in.varint());
    }
}

double read_double(wire::Cursor& in, uint32_t scalar) {
    if (scalar == kDouble) return std::bit_cast<double>(in.fixed64());
    if (scalar == kFloat) return std::bit_cast<float>(in.fixed32());
    int64_t v = read_int(in, scalar);
    bool wide = scalar == kUint64 || scalar == kFixed64;
    return wide ? static_cast<double>(static_cast<uint64_t>(v)) : static_cast<double>(v);
}

wire::Cursor over(std::string_view bytes) {
    auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
    return {begin, begin + bytes.size()};
}

// Field 1 of a list message, packed or not.
template <class T, class Read>
std::vector<T> read_list(std::string_view payload, uint32_t scalar, Read read) {
    std::vector<T> values;
    wire::Cursor in = over(payload);
    while (!in.done()) {
        uint32_t tag = in.tag();
        if (tag == wire::tag(1, wire_type(scalar))) {
            values.push_back(read(in, scalar));
        } else if (tag == wire::tag(1, wire::kBytes)) {
            for (wire::Cursor packed = in.bytes(); !packed.done();)
                values.push_back(read(packed, scalar));
        } else {
            in.skip(tag);
        }
    }
    return values;
}

}  // namespace

Attribute Attribute::parse(wire::Cursor in) {
    Attribute attribute;
    while (!in.done()) {
        uint32_t tag = in.tag();
        uint32_t field = tag >> 3;
        if (tag == wire::tag(1, wire::kBytes)) {
            attribute.name = in.text();
        } else if (field >= kDouble && field <= kLast && (tag & 7) == wire_type(field)) {
            const uint8_t* start = in.at();
            in.skip(tag);
            wire::Cursor value(start, in.at());
            attribute.member = field;
            attribute.payload = (tag & 7) == wire::kBytes ? value.text() : value.rest();
        } else {
            in.skip(tag);
        }
    }
    return attribute;
}

std::optional<int64_t> Attribute::as_int() const {
    if (!is_integer(member) || is_list(member)) return std::nullopt;
    wire::Cursor in = over(payload);
    return read_int(in, member);
}

std::optional<double> Attribute::as_double() const {
    if (is_list(member) || !(is_real(member) || is_integer(member))) return std::nullopt;
    wire::Cursor in = over(payload);
    return read_double(in, member);
}

std::optional<std::string_view> Attribute::as_text() const {
    if (member != kString && member != kBytes) return std::nullopt;
    return payload;
}

std::optional<std::vector<int64_t>> Attribute::as_ints() const {
    uint32_t scalar = scalar_of(member);
    if (!is_list(member) || !is_integer(scalar)) return std::nullopt;
    return read_list<int64_t>(payload, scalar, read_int);
}

std::optional<std::vector<double>> Attribute::as_doubles() const {
    uint32_t scalar = scalar_of(member);
    if (!is_list(member) || !(is_real(scalar) || is_integer(scalar))) return std::nullopt;
    return read_list<double>(payload, scalar, read_double);
}

}  // namespace chakra
