// One AttributeProto, found in a node's bytes and read as the type the caller wants.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/wire/wire.hpp"

namespace chakra {

// `member` is the schema's field number of the oneof member (7 int32_val, 29 string_val …; even
// numbers are lists), 0 if no value is set. `payload` is the value as encoded, without tag and
// length. Both point into the node's bytes.
struct Attribute {
    std::string_view name;
    uint32_t member = 0;
    std::string_view payload;

    // Throws FormatError if the message is damaged; of several values the last counts.
    static Attribute parse(wire::Cursor message);

    // Any integer member or bool_val. Unsigned values above 2^63 - 1 keep their bits.
    std::optional<int64_t> as_int() const;
    // Any number.
    std::optional<double> as_double() const;
    // string_val and bytes_val.
    std::optional<std::string_view> as_text() const;
    // Any list of integers or bools. Throws FormatError if it is damaged.
    std::optional<std::vector<int64_t>> as_ints() const;
    // Any list of numbers. Throws FormatError if it is damaged.
    std::optional<std::vector<double>> as_doubles() const;
};

}  // namespace chakra
