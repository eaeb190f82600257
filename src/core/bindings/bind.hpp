// What the binding files share: each concept registers itself through one function.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "core/memory/buffer.hpp"

namespace nb = nanobind;

namespace chakra::bind {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// A copy: the core runs without Python's lock, and what was checked must not change any more.
template <class T>
std::vector<T> own(const In<T>& a) {
    return {a.data(), a.data() + a.size()};
}

// Hands a vector's memory to numpy without a copy.
template <class T>
Out<T> to_numpy(std::vector<T>&& v) {
    auto* kept = new std::vector<T>(std::move(v));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Out<T>(kept->data(), {kept->size()}, owner);
}

// The same for a buffer, which is left empty.
template <class T>
Out<T> give(Buffer<T>& b) {
    size_t n = b.size();
    T* p = b.release();
    nb::capsule owner(p, [](void* q) noexcept { std::free(q); });
    return Out<T>(p, {n}, owner);
}

}  // namespace chakra::bind
