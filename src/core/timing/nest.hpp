// Which event encloses which, on threads whose events were only recorded with begin and end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace chakra {

// `parent[i]` is the enclosing event or -1; `astray[i]` marks an event that begins inside another
// and outlives it by more than `slack`: something started there that ran on by itself.
struct Nesting {
    std::vector<int32_t> parent;
    std::vector<int8_t> astray;
};

// Events must be sorted by (thread, start, -end). Linear in their number.
Nesting nest(std::span<const int32_t> thread, std::span<const int64_t> start,
             std::span<const int64_t> end, int64_t slack);

}  // namespace chakra
