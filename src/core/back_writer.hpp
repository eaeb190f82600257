// Protobuf written from the end to the beginning, so that a message's length is known when its
// prefix is due.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace chakra {

class BackWriter {
   public:
    explicit BackWriter(size_t room) { grow(room); }
    ~BackWriter() { std::free(memory_); }
    BackWriter(const BackWriter&) = delete;
    BackWriter& operator=(const BackWriter&) = delete;

    size_t size() const { return static_cast<size_t>(end_ - p_); }
    const uint8_t* begin() const { return p_; }

    void byte(uint8_t b) {
        need(1);
        *--p_ = b;
    }
    void varint(uint64_t v) {
        need(10);
        if (v < 0x80) {
            *--p_ = static_cast<uint8_t>(v);
            return;
        }
        uint8_t bytes[10];
        int n = 0;
        for (; v >= 0x80; v >>= 7) bytes[n++] = static_cast<uint8_t>(v | 0x80);
        bytes[n++] = static_cast<uint8_t>(v);
        p_ -= n;
        std::memcpy(p_, bytes, static_cast<size_t>(n));
    }
    template <class T>
    void fixed(T v) {
        need(sizeof(T));
        p_ -= sizeof(T);
        std::memcpy(p_, &v, sizeof(T));
    }
    void text(std::string_view s) {
        if (s.empty()) return;
        need(s.size());
        p_ -= s.size();
        std::memcpy(p_, s.data(), s.size());
    }
    // The length of everything written since `size` was `mark`, then the tag: closes a nested
    // message.
    void close(size_t mark, uint32_t tag) {
        varint(size() - mark);
        varint(tag);
    }
    void field(uint32_t tag, std::string_view s) {
        text(s);
        varint(s.size());
        varint(tag);
    }

    // Gives away the memory; the bytes are its last size() ones.
    uint8_t* release() { return std::exchange(memory_, nullptr); }

   private:
    void need(size_t n) {
        if (static_cast<size_t>(p_ - memory_) < n) grow(size() * 2 + n + 4096);
    }
    void grow(size_t capacity) {
        auto* fresh = static_cast<uint8_t*>(std::malloc(capacity));
        if (fresh == nullptr) throw std::bad_alloc();
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
