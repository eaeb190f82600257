// A reader of protobuf's wire format (varints, tags, fields to skip) that checks every length.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/error.hpp"

namespace chakra::wire {

enum Type : uint32_t {
    kVarint = 0,
    kFixed64 = 1,
    kBytes = 2,
    kGroup = 3,
    kEndGroup = 4,
    kFixed32 = 5
};

constexpr uint32_t tag(uint32_t field, Type type) {
    return field << 3 | type;
}

// A frame or field longer than this is refused, as every protobuf runtime does.
constexpr uint64_t kMaxLength = 0x7fffffff;

inline int64_t zigzag_decode(uint64_t v) {
    return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
}
inline uint64_t zigzag_encode(int64_t v) {
    return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}

// A window on bytes that only moves forward. `origin` is where offsets in errors count from.
//
// Functions that are not inlined are static and take pointers: the address of a cursor is never
// taken, so the compiler can keep it in registers.
class Cursor {
   public:
    Cursor(const uint8_t* begin, const uint8_t* end, const uint8_t* origin)
        : p_(begin), end_(end), origin_(origin) {}
    Cursor(const uint8_t* begin, const uint8_t* end) : Cursor(begin, end, begin) {}

    bool done() const { return p_ == end_; }
    const uint8_t* at() const { return p_; }
    const uint8_t* end() const { return end_; }
    size_t left() const { return static_cast<size_t>(end_ - p_); }
    int64_t offset() const { return p_ - origin_; }
    const uint8_t* origin() const { return origin_; }

    uint64_t varint() {
        if (p_ < end_ && *p_ < 0x80) return *p_++;
        if (end_ - p_ >= 2 && p_[1] < 0x80) {
            uint64_t v = (p_[0] & 0x7fu) | static_cast<uint64_t>(p_[1]) << 7;
            p_ += 2;
            return v;
        }
        Varint found = long_varint(p_, end_, origin_);
        p_ = found.next;
        return found.value;
    }

    // A tag is a 32-bit varint with a non-zero field number.
    uint32_t tag() {
        const uint8_t* start = p_;
        uint64_t v = varint();
        if (v > 0xffffffff || (v >> 3) == 0) fail("bad field tag", start, origin_);
        return static_cast<uint32_t>(v);
    }

    uint32_t fixed32() { return fixed<uint32_t>(); }
    uint64_t fixed64() { return fixed<uint64_t>(); }

    // A length-delimited field's content.
    Cursor bytes() {
        const uint8_t* start = p_;
        uint64_t n = varint();
        if (n > left()) fail_length(n, start, origin_);
        Cursor inner(p_, p_ + n, origin_);
        p_ += n;
        return inner;
    }

    std::string_view text() {
        Cursor c = bytes();
        return {reinterpret_cast<const char*>(c.at()), c.left()};
    }

    std::string_view rest() const { return {reinterpret_cast<const char*>(p_), left()}; }

    void skip(uint32_t tag, int depth = 0) {
        switch (tag & 7) {
            case kVarint: varint(); return;
            case kFixed64: fixed64(); return;
            case kBytes: bytes(); return;
            case kFixed32: fixed32(); return;
            case kGroup: p_ = after_group(tag >> 3, depth, p_, end_, origin_); return;
            default: fail("field of an impossible wire type", p_, origin_);
        }
    }

    [[noreturn]] void fail(const char* what, const uint8_t* where) const {
        fail(what, where, origin_);
    }
    [[noreturn]] void fail(const char* what) const { fail(what, p_, origin_); }

   private:
    struct Varint {
        uint64_t value;
        const uint8_t* next;
    };
    static Varint long_varint(const uint8_t* p, const uint8_t* end, const uint8_t* origin);
    static const uint8_t* after_group(uint32_t field, int depth, const uint8_t* p,
                                      const uint8_t* end, const uint8_t* origin);
    [[noreturn]] static void fail(const char* what, const uint8_t* where, const uint8_t* origin);
    [[noreturn]] static void fail_length(uint64_t n, const uint8_t* where, const uint8_t* origin);

    template <class T>
    T fixed() {
        if (left() < sizeof(T))
            fail("fixed-width value runs past the end of its message", p_, origin_);
        T v;
        std::memcpy(&v, p_, sizeof(T));
        p_ += sizeof(T);
        return v;
    }

    const uint8_t* p_;
    const uint8_t* end_;
    const uint8_t* origin_;
};

}  // namespace chakra::wire
