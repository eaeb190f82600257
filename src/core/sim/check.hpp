// Whether the engine's arrays fit together. The engine trusts what passes: nothing it does then
// reads outside an array or waits for what cannot come from the arrays alone.
#pragma once

#include "core/sim/workload.hpp"

namespace chakra::sim {

// Each throws std::invalid_argument that names the array, the place and what would be right:
// lengths, ranges of numbers, offsets that do not ascend, delays that are not sorted.
void check(const Topology& topology);
void check(const Plans& plans);
void check(const Workload& workload);

// What the three say about each other: routes of transfers, plans of jobs, links of faults.
void check_together(const Workload& workload, const Plans& plans, const Topology& topology);

}  // namespace chakra::sim
