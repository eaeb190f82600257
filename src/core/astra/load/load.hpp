// Turns execution traces into the graphs that ASTRA-sim mode simulates.
#pragma once

#include <string>
#include <vector>

#include "core/astra/model/model.hpp"

namespace chakra::astra {

// The attributes of one node; `has` says which were given.
struct Attributes {
    enum : uint32_t {
        kCommType = 1,
        kCommSize = 2,
        kNumOps = 4,
        kTensorSize = 8,
        kSrc = 16,
        kDst = 32,
        kTag = 64,
        kDims = 128,
        kGroup = 256
    };
    uint32_t has = 0;
    uint32_t dims = 0;
    int64_t comm_type = 0;
    uint64_t comm_size = 0;
    uint64_t num_ops = 0;
    uint64_t tensor_size = 0;
    int64_t src = 0;
    int64_t dst = 0;
    int64_t tag = 0;
    int64_t group = 0;
};

// A graph in any order, dependencies by id: `deps[first_dep[i] .. first_dep[i+1])` belong to node
// i.
struct RawGraph {
    std::vector<uint64_t> id;
    std::vector<int32_t> type;
    std::vector<uint8_t> cpu;
    std::vector<uint64_t> micros;
    std::vector<uint32_t> attributes;  // row of `rows`, or kNone
    std::vector<Attributes> rows;
    std::vector<uint64_t> first_dep{0};
    std::vector<uint64_t> deps;
    std::vector<std::pair<uint64_t, std::string>> texts;
};

// `where` (a file or a rank) begins every error message. `rank` is kNone in a custom collective. If
// lenient, a repeated id replaces the earlier node, as in ASTRA-sim.
Body build(RawGraph&& graph, const std::string& where, Rank rank, bool lenient);

// Reads uncompressed .et files, one per rank. Files with equal bytes share one body.
Program load(const std::vector<std::string>& paths, bool lenient);
Body load_custom(const std::string& path, bool lenient);

// Gives every collective the row of its group; group 0 is all ranks.
void bind_groups(Program& program, std::vector<Group> groups);

}  // namespace chakra::astra
