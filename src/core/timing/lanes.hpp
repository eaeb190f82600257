// Lanes as links between rows: who runs next on an ordered lane, and whom a launch queue releases.
#pragma once

#include <vector>

#include "core/timing/constraints.hpp"

namespace chakra::timing {

struct Lanes {
    Lanes() = default;
    explicit Lanes(const Constraints& c);

    // The lanes of rows that follow these; their rows count from 0.
    void append(Lanes&& more);

    std::vector<int32_t> follower;  // by row: the row that runs after it on its ordered lane, or -1
    std::vector<int32_t> releases;  // by row: the launcher that may end once the row starts, or -1
};

}  // namespace chakra::timing
