// Whether a problem's parts fit together. The engines trust what passes: nothing they do then reads
// outside an array.
#pragma once

#include "core/serving/cluster.hpp"

namespace chakra::serving {

// Each throws std::invalid_argument that names the field, the place and what would be right.
void check(const Requests& requests);
void check(const Options& options);
void check(const GridAttention& grid);
void check(const Problem& problem);

}  // namespace chakra::serving
