// What ASTRA-sim mode simulates: graphs by rank, communicator groups, a system, a network and a
// memory. Plain data; the rules about time are in plan and engine. One tick is one nanosecond.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace chakra::astra {

using Tick = int64_t;
using Rank = uint32_t;

constexpr uint32_t kNone = 0xffffffff;

// The schema's node types, by their numbers.
enum class Kind : uint8_t { Invalid, Metadata, Load, Store, Compute, Send, Recv, Collective };

enum class Coll : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };

enum class Algo : uint8_t { Ring, Direct, HalvingDoubling, Tree };

enum class Shape : uint8_t { Ring, FullyConnected, Switch };

// What a node needs beyond its duration: one row for each node that is not plain replayed compute.
struct Op {
    Coll coll = Coll::AllReduce;
    int64_t group_id = 0;   // as the trace names it; 0 is all ranks
    uint32_t group = 0;     // row of Program::groups, once the groups are known
    uint32_t dims = kNone;  // bit k: network dimension k takes part
    Rank peer = kNone;      // of a send or receive
    uint32_t tag = 0;       // of a send or receive
    uint64_t bytes = 0;     // of a collective, message or memory access
    uint64_t num_ops = 0;   // roofline
    uint64_t tensor_size = 0;
    bool sized = false;  // num_ops and tensor_size were both given
};

// One rank's graph. Nodes are rows in ascending id, so that row order is ASTRA-sim's issue order.
// `children[first_child[i] .. first_child[i+1])` depend on i; `parents[i]` counts i's dependencies.
struct Body {
    std::vector<uint64_t> ids;
    std::vector<Kind> kind;
    std::vector<uint8_t> cpu;
    std::vector<uint64_t> micros;
    std::vector<uint32_t> op;  // row of `ops`, or kNone
    std::vector<uint32_t> first_child;
    std::vector<uint32_t> children;
    std::vector<uint32_t> parents;
    std::vector<Op> ops;
    std::vector<std::pair<uint64_t, std::string>> texts;  // metadata nodes: id and inputs.values

    Rank own_rank = kNone;  // the rank its sends and receives say they run on, if they do

    size_t size() const { return ids.size(); }
    // Zero microseconds replay as one tick.
    Tick replay(uint32_t node) const {
        return micros[node] == 0 ? 1 : static_cast<Tick>(micros[node]) * 1000;
    }
};

struct Group {
    int64_t id = 0;
    std::vector<Rank> members;
};

// A collective given as a graph: bodies[p] is run by the member at position p.
struct Custom {
    std::vector<std::shared_ptr<const Body>> bodies;
};

struct Program {
    std::vector<std::shared_ptr<Body>> bodies;
    std::vector<uint32_t> body_of;  // by rank
    std::vector<Group> groups;      // row 0: all ranks

    uint32_t ranks() const { return static_cast<uint32_t>(body_of.size()); }
    const Body& body(Rank r) const { return *bodies[body_of[r]]; }
};

struct Implementation {
    Algo algo = Algo::Ring;
    bool one = false;     // one dimension made of all ranks
    uint32_t window = 0;  // of direct; 0: every peer at once
};

struct System {
    Tick endpoint_delay = 10;
    uint32_t active_chunks = 1;
    uint32_t splits = 0;
    uint32_t queues = 1;
    bool local_bw_aware = true;
    bool roofline = false;
    bool replay_only = false;
    bool rendezvous = false;
    bool lenient = false;
    double local_mem_bw = 0;                         // GB/s
    double peak_perf = 0;                            // TFLOP/s
    std::vector<Implementation> implementations[4];  // by Coll
    std::shared_ptr<const Custom> custom[4];         // by Coll
    std::unordered_map<uint64_t, std::shared_ptr<const Custom>> custom_by_node;
};

struct Dimension {
    Shape shape = Shape::Ring;
    uint32_t size = 1;
    double bandwidth = 0;  // bytes per tick
    double latency = 0;    // ticks per hop
};

struct Network {
    std::vector<Dimension> dims;
    bool aware = false;
};

struct Memory {
    enum class Type : uint8_t { None, PerNpu, PerNode, Pool } type = Type::None;
    uint32_t nodes = 0;
    uint32_t npus_per_node = 0;
    uint64_t latency = 0;
    uint64_t bandwidth = 0;  // bytes per second
};

}  // namespace chakra::astra
