// Writes protobuf from the end to the beginning, so that the length of a message is known when its
// prefix is written.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "core/memory/huge_pages.hpp"
#include "core/memory/short_copy.hpp"

namespace chakra {

// Except for field(), writing does not make room: call reserve() with the most that the next writes
// can take.
class BackWriter {
   public:
    static constexpr size_t kVarint = 10, kField = 2 * kVarint;

    explicit BackWriter(size_t room) { grow(room); }
    ~BackWriter() { std::free(memory_); }
    BackWriter(const BackWriter&) = delete;
    BackWriter& operator=(const BackWriter&) = delete;

    size_t size() const { return static_cast<size_t>(end_ - p_); }
    const uint8_t* begin() const { return p_; }

    void reserve(size_t n) {
        if (static_cast<size_t>(p_ - memory_) < n) grow(size() * 2 + n + 4096);
    }

    void byte(uint8_t b) { *--p_ = b; }
    void varint(uint64_t v) {
        if (v < 0x80) return byte(static_cast<uint8_t>(v));
        p_ -= (static_cast<unsigned>(std::bit_width(v)) + 6) / 7;
        uint8_t* p = p_;
        for (; v >= 0x80; v >>= 7) *p++ = static_cast<uint8_t>(v | 0x80);
        *p = static_cast<uint8_t>(v);
    }
    template <class T>
    void fixed(T v) {
        p_ -= sizeof(T);
        std::memcpy(p_, &v, sizeof(T));
    }
    void text(std::string_view s) {
        p_ -= s.size();
        copy_short(p_, s.data(), s.size());
    }
    // Closes a nested message: writes the length of everything since size() was `mark`, then the
    // tag.
    void close(size_t mark, uint32_t tag) {
        varint(size() - mark);
        varint(tag);
    }
    void field(uint32_t tag, std::string_view s) {
        reserve(s.size() + kField);
        text(s);
        varint(s.size());
        varint(tag);
    }

    // Hands over the memory; what was written is its last size() bytes.
    uint8_t* release() { return std::exchange(memory_, nullptr); }

   private:
    void grow(size_t capacity) {
        auto* fresh = static_cast<uint8_t*>(std::malloc(capacity));
        if (fresh == nullptr) throw std::bad_alloc();
        prefer_huge_pages(fresh, capacity);
        size_t n = memory_ ? size() : 0;
        if (n) std::memcpy(fresh + capacity - n, p_, n);
        std::free(memory_);
        memory_ = fresh;
        end_ = fresh + capacity;
        p_ = end_ - n;
    }

    uint8_t* memory_ = nullptr;
    uint8_t* p_ = nullptr;
    uint8_t* end_ = nullptr;
};

}  // namespace chakra
