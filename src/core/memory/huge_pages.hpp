// Puts large arrays on huge pages: a page fault for every 4 KiB would cost more than decoding what
// is stored there.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace chakra {

// Only a hint to the operating system; nothing depends on it but speed.
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kPage = 4096, kHuge = 2 << 20;
    if (bytes < kHuge) return;
    uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) & ~(kPage - 1);
    uintptr_t last = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kPage - 1);
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace chakra
