// The values an AttributeProto can have: thirty oneof members on the wire, held by ten kinds of
// columns.
#pragma once

#include <cstdint>

#include "core/wire/wire.hpp"

namespace chakra {

// How a column holds values. The storage of a list is that of its elements plus kListOffset.
enum class Storage : int8_t {
    kInt,
    kDouble,
    kBool,
    kString,
    kBinary,
    kIntList,
    kDoubleList,
    kBoolList,
    kStringList,
    kBinaryList,
};
constexpr int kListOffset = 5;

// Field numbers of AttributeProto. Even numbers from 4 on are lists of the member before them.
namespace member {
constexpr int kName = 1, kDocString = 2;
constexpr int kDouble = 3, kFloat = 5, kInt32 = 7, kInt64 = 9, kUint32 = 11, kUint64 = 13;
constexpr int kSint32 = 15, kSint64 = 17, kFixed32 = 19, kFixed64 = 21, kSfixed32 = 23;
constexpr int kSfixed64 = 25, kBool = 27, kString = 29, kBytes = 31;
constexpr int kFirst = 3, kLast = 32;

constexpr bool is_value(uint32_t field) {
    return field >= kFirst && field <= kLast;
}
constexpr bool is_list(int m) {
    return m % 2 == 0;
}
constexpr int scalar_of(int m) {
    return is_list(m) ? m - 1 : m;
}

constexpr Storage storage(int m) {
    int s = scalar_of(m);
    Storage base = s <= kFloat      ? Storage::kDouble
                   : s <= kSfixed64 ? Storage::kInt
                   : s == kBool     ? Storage::kBool
                   : s == kString   ? Storage::kString
                                    : Storage::kBinary;
    return is_list(m) ? static_cast<Storage>(static_cast<int>(base) + kListOffset) : base;
}

// Whether a column can hold a member: they have the same storage, or one is boolean and the other
// an integer, since writers disagree on the type of `is_cpu_op`.
constexpr bool fits(Storage column, int m) {
    Storage own = storage(m);
    return own == column || (column == Storage::kBool && own == Storage::kInt) ||
           (column == Storage::kInt && own == Storage::kBool);
}

// Wire type of one element.
constexpr wire::Type element_wire(int m) {
    switch (scalar_of(m)) {
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
constexpr wire::Type wire_type(int m) {
    return is_list(m) ? wire::kBytes : element_wire(m);
}
}  // namespace member

// One integer element as int64. False where it does not fit (a uint64 of 2^63 or more).
[[gnu::always_inline]] inline bool read_int(wire::Cursor& c, int scalar, int64_t& v) {
    switch (scalar) {
        case member::kInt32: v = static_cast<int32_t>(c.varint()); return true;
        case member::kUint32: v = static_cast<uint32_t>(c.varint()); return true;
        case member::kSint32:
            v = static_cast<int32_t>(wire::zigzag_decode(static_cast<uint32_t>(c.varint())));
            return true;
        case member::kSint64: v = wire::zigzag_decode(c.varint()); return true;
        case member::kFixed32: v = c.fixed32(); return true;
        case member::kSfixed32: v = static_cast<int32_t>(c.fixed32()); return true;
        case member::kSfixed64: v = static_cast<int64_t>(c.fixed64()); return true;
        case member::kFixed64: v = static_cast<int64_t>(c.fixed64()); return v >= 0;
        case member::kUint64: v = static_cast<int64_t>(c.varint()); return v >= 0;
        case member::kBool: v = c.varint() != 0; return true;
        default: v = static_cast<int64_t>(c.varint()); return true;
    }
}

// One floating-point element as double. False for a NaN of type float, whose payload would not
// survive the way to a double and back.
[[gnu::always_inline]] inline bool read_double(wire::Cursor& c, int scalar, double& v) {
    if (scalar == member::kDouble) {
        uint64_t bits = c.fixed64();
        std::memcpy(&v, &bits, 8);
        return true;
    }
    uint32_t bits = c.fixed32();
    float f;
    std::memcpy(&f, &bits, 4);
    v = f;
    return f == f;
}

}  // namespace chakra
