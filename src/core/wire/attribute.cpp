#include "core/wire/attribute.hpp"

#include "core/wire/member.hpp"

namespace chakra {

namespace {

bool is_list(uint32_t m) {
    return m != 0 && member::is_list(static_cast<int>(m));
}

// A list's elements are encoded as the scalar member before it.
uint32_t scalar_of(uint32_t m) {
    return static_cast<uint32_t>(member::scalar_of(static_cast<int>(m)));
}

bool is_real(uint32_t scalar) {
    return scalar == member::kDouble || scalar == member::kFloat;
}
bool is_integer(uint32_t scalar) {
    return scalar >= member::kInt32 && scalar <= member::kBool;
}

// Values of 2^63 and more come out as the int64 of the same bits.
int64_t int_at(wire::Cursor& in, uint32_t scalar) {
    int64_t v = 0;
    read_int(in, static_cast<int>(scalar), v);
    return v;
}

double double_at(wire::Cursor& in, uint32_t scalar) {
    double v = 0;
    if (is_real(scalar)) {
        read_double(in, static_cast<int>(scalar), v);
        return v;
    }
    int64_t i = int_at(in, scalar);
    bool wide = scalar == member::kUint64 || scalar == member::kFixed64;
    return wide ? static_cast<double>(static_cast<uint64_t>(i)) : static_cast<double>(i);
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
        if (tag == wire::tag(1, member::element_wire(static_cast<int>(scalar)))) {
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
        } else if (member::is_value(field) &&
                   (tag & 7) == member::wire_type(static_cast<int>(field))) {
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
    return int_at(in, member);
}

std::optional<double> Attribute::as_double() const {
    if (is_list(member) || !(is_real(member) || is_integer(member))) return std::nullopt;
    wire::Cursor in = over(payload);
    return double_at(in, member);
}

std::optional<std::string_view> Attribute::as_text() const {
    if (member != chakra::member::kString && member != chakra::member::kBytes) return std::nullopt;
    return payload;
}

std::optional<std::vector<int64_t>> Attribute::as_ints() const {
    uint32_t scalar = scalar_of(member);
    if (!is_list(member) || !is_integer(scalar)) return std::nullopt;
    return read_list<int64_t>(payload, scalar, int_at);
}

std::optional<std::vector<double>> Attribute::as_doubles() const {
    uint32_t scalar = scalar_of(member);
    if (!is_list(member) || !(is_real(scalar) || is_integer(scalar))) return std::nullopt;
    return read_list<double>(payload, scalar, double_at);
}

}  // namespace chakra
