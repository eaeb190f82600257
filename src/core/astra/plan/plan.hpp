// How one collective is cut into chunks and each chunk into phases.
#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "core/astra/model/model.hpp"

namespace chakra::astra {

// Which queues of a dimension phases take in turn; the queue decides the direction.
enum class QueueRule : uint8_t { Any, First, Last };

// One message of halvingDoubling: the index of the partner is the own index XOR `mask`.
struct Step {
    uint32_t mask;
    uint64_t bytes;
    Tick reduce;
};

// One algorithm on one dimension. Messages are numbered 0 .. messages-1 in the order they are sent.
// Prepared messages (items) come in cycles: `window` of them without a reduction, then `reducible`
// ones that may have one.
struct Phase {
    Algo algo = Algo::Ring;
    Coll coll = Coll::AllReduce;
    QueueRule rule = QueueRule::Any;
    bool subgroup = false;  // members are a group's list, not a dimension's ranks
    bool whole = false;     // members are all ranks, in rank order, whatever the dimensions
    uint32_t dim = 0;       // whose queues are used
    uint32_t size = 0;      // members
    uint32_t stride = 1;    // between the ranks of neighbouring members
    uint32_t window = 1;
    uint32_t reducible = 0;
    uint32_t messages = 0;
    uint64_t bytes = 0;  // of each message, except in halvingDoubling
    Tick endpoint = 0;
    Tick reduce = 0;
    std::vector<Step> steps;  // halvingDoubling

    uint64_t message_bytes(uint32_t k) const { return steps.empty() ? bytes : steps[k].bytes; }
    // The reduction that follows the endpoint delay of item k, or -1 for none.
    Tick reduction(uint32_t k) const;
};

struct Plan {
    uint64_t chunk_bytes = 0;
    uint32_t chunks = 0;
    std::vector<Phase> phases;
};

// Makes each plan once and numbers plans in the order in which they were made.
class Planner {
   public:
    Planner(const System& system, const Network& network);

    // `subgroup` is the number of members of a group smaller than the network, or 0.
    uint32_t plan(Coll coll, uint64_t bytes, uint32_t dims, uint32_t subgroup);
    const Plan& operator[](uint32_t i) const { return plans_[i]; }
    uint32_t ranks() const { return ranks_; }

   private:
    struct Axis {
        uint32_t size;
        uint32_t stride;
        bool whole;
        Implementation impl;
    };

    Plan make(Coll coll, uint64_t bytes, uint32_t dims, uint32_t subgroup) const;
    std::vector<Axis> axes(Coll coll, uint32_t subgroup) const;
    void require_one_per_dimension(Coll coll, const std::vector<Implementation>& list) const;
    void cut(Plan& plan, Coll coll, uint64_t bytes) const;
    void plain(Plan& plan, Coll coll, const std::vector<Axis>& axes, uint32_t dims, bool sub) const;
    void there_and_back(Plan& plan, const std::vector<Axis>& axes, uint32_t dims, bool sub) const;
    Phase phase(Coll coll, uint64_t data, const Axis& axis, uint32_t dim, bool subgroup) const;
    void check(const Phase& p, Coll asked) const;
    void sequence(Phase& p, uint64_t data) const;
    void halving(Phase& p, uint64_t data) const;
    Tick reduction(uint64_t bytes) const;

    const System& system_;
    const Network& network_;
    uint32_t ranks_ = 1;
    std::deque<Plan> plans_;  // references to plans stay good while new ones are made
    std::map<std::tuple<Coll, uint64_t, uint32_t, uint32_t>, uint32_t> known_;
};

const char* name_of(Coll coll);
const char* name_of(Algo algo);

}  // namespace chakra::astra
