// Gives strings small numbers, in the order in which they are first seen.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/memory/buffer.hpp"

namespace chakra {

// Open addressing under a per-process random seed, since the strings come from files that are not
// trusted.
class Interner {
   public:
    Interner() { clear(); }
    // Number 0 is `first`.
    explicit Interner(std::string_view first) : Interner() { intern(first); }

    // The number of `s`; `fresh` says whether it was not known before.
    int32_t intern(std::string_view s, bool& fresh);
    int32_t intern(std::string_view s) {
        bool fresh;
        return intern(s, fresh);
    }
    // -1 if unknown.
    int32_t find(std::string_view s) const;

    int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }
    std::string_view operator[](int32_t i) const {
        return {text_.data() + offsets_[i], static_cast<size_t>(offsets_[i + 1] - offsets_[i])};
    }
    const Buffer<int64_t>& offsets() const { return offsets_; }
    const Buffer<char>& text() const { return text_; }
    // To hand the memory to another owner; the interner must not be used afterwards.
    Buffer<int64_t>& take_offsets() { return offsets_; }
    Buffer<char>& take_text() { return text_; }
    void clear();

   private:
    struct Slot {
        uint64_t hash;
        int32_t index;  // -1 = free
    };
    size_t slot_of(std::string_view s, uint64_t hash) const;
    void grow();

    std::vector<Slot> slots_;
    Buffer<int64_t> offsets_;
    Buffer<char> text_;
};

uint64_t hash_bytes(std::string_view s);

}  // namespace chakra
