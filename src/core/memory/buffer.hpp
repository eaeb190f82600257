// A growable array of trivially copyable values whose memory can be handed to another owner. It
// grows by realloc, which moves the pages of a large array instead of copying its bytes.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/memory/huge_pages.hpp"
#include "core/memory/short_copy.hpp"

namespace chakra {

template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>);

   public:
    Buffer() = default;
    Buffer(Buffer&& o) noexcept
        : data_(std::exchange(o.data_, nullptr)),
          size_(std::exchange(o.size_, 0)),
          capacity_(std::exchange(o.capacity_, 0)) {}
    Buffer& operator=(Buffer&& o) noexcept {
        std::swap(data_, o.data_);
        std::swap(size_, o.size_);
        std::swap(capacity_, o.capacity_);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }

    void push(T v) {
        if (size_ == capacity_) reserve(size_ + 1);
        data_[size_++] = v;
    }
    void append(const T* from, size_t n) {
        if (n == 0) return;
        reserve(size_ + n);
        std::memcpy(data_ + size_, from, n * sizeof(T));
        size_ += n;
    }
    void append(std::string_view s)
        requires(sizeof(T) == 1)
    {
        reserve(size_ + s.size());
        copy_short(data_ + size_, s.data(), s.size());
        size_ += s.size();
    }
    // Appends and says whether all of it was ASCII.
    bool append_scanned(std::string_view s)
        requires(sizeof(T) == 1)
    {
        reserve(size_ + s.size());
        uint64_t seen = copy_and_scan(data_ + size_, s.data(), s.size());
        size_ += s.size();
        return (seen & kHighBits) == 0;
    }
    // Appends to room that was reserved before.
    void push_reserved(T v) { data_[size_++] = v; }
    // Grows to `n` elements, of which the new ones are `fill`; never shrinks.
    void grow_to(size_t n, T fill) {
        if (n <= size_) return;
        reserve(n);
        for (size_t i = size_; i < n; ++i) data_[i] = fill;
        size_ = n;
    }
    size_t capacity() const { return capacity_; }
    void clear() { size_ = 0; }
    void truncate(size_t n) { size_ = n; }

    void reserve(size_t n) {
        if (n <= capacity_) return;
        size_t wanted = capacity_ + capacity_ / 2 + 64;
        if (wanted < n) wanted = n;
        void* p = std::realloc(data_, wanted * sizeof(T));
        if (p == nullptr) throw std::bad_alloc();
        data_ = static_cast<T*>(p);
        capacity_ = wanted;
        prefer_huge_pages(p, wanted * sizeof(T));
    }

    // Hands over the memory, shrunk to its size; the new owner calls std::free.
    T* release() {
        if (size_ < capacity_) {
            if (void* p = std::realloc(data_, (size_ ? size_ : 1) * sizeof(T)))
                data_ = static_cast<T*>(p);
        }
        size_ = capacity_ = 0;
        return std::exchange(data_, nullptr);
    }

   private:
    T* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

}  // namespace chakra
