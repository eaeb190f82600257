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

// When callers end once what they called ends at `end`. `rows` are those that hold up their caller
// (`outer`), innermost first. A caller ends as long after the last row inside it as was recorded,
// in ticks of which `per_ns` are 1 ns, never after the start of the row that `follows` on its
// thread (-1 for none), and never before a row inside it. Linear in their number.
struct Calls {
    std::span<const int32_t> rows, outer;
    std::span<const int64_t> recorded_end, start;
    std::span<const int32_t> follows;
    int64_t per_ns;
};
std::vector<int64_t> callers_ends(const Calls& calls, std::span<const int64_t> end);

}  // namespace chakra
