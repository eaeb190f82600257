// A simulation whose workload grows while it runs: kernels, transfers, collectives and whole traces
// that programs decide on. Devices, links, servers and their rules are those of core/sim.
//
// Rows, transfers and collectives that have ended are used again, so that memory follows what is
// under way and not what has been.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "core/sim/simulation.hpp"

namespace chakra::sim::live {

// What a program's part in a machine's network costs: a plan and how it shares links.
struct Transfer {
    int32_t plan = -1;
    Rank rank;
};

// Traces to be played: their rows, laid on devices, with room for any number of copies.
struct Score {
    Workload rows;  // lanes, devices, instances and jobs count from 0
    std::vector<int32_t> devices, rank_of;
    int32_t first_plan = 0;
    std::vector<int32_t> free_copies;
};

// One playing of a score. Its rows follow `first_row` in the order of the score.
struct Copy {
    int32_t score = -1, first_row = 0, rows_left = 0;
    int64_t first_instance = 0;
    std::vector<timing::Kernel::Event> fresh;  // its events before anything happened
};

class Growing {
   public:
    // `site` has devices, gates and faults and nothing to do yet; lane 2d runs the kernels of
    // device d, lane 2d + 1 the work of its host.
    Growing(Workload site, Topology links, bool flow, Reactor& reactor);

    void run() { simulation_.run_on(); }
    Time now() const { return simulation_.now(); }
    const Outcome& outcome() const { return simulation_.outcome(); }
    const Plans& plans() const { return plans_; }
    const std::vector<double>& payload() const { return payload_; }
    const Topology& topology() const { return topology_; }
    const LinkMeter& meter() const { return network_->meter(); }

    int32_t add_route(std::span<const int64_t> links);
    int32_t add_plans(const Plans& plans, const Topology& routes, std::span<const double> payload);
    int32_t add_message(int32_t route, double bytes, double payload, Time delay);

    // Each gives the row, the job or the copy whose end the reactor will be told.
    int32_t compute(int32_t device, bool host, Time duration, int32_t priority);
    int32_t send(Transfer transfer, int32_t device);
    int32_t open(Transfer transfer, int32_t needed, Time overhead, int32_t gate, int64_t order);
    int32_t join(int32_t instance, int32_t device, RowKind kind);
    int32_t add_score(Score score);
    int32_t copy(int32_t score);
    void release(int32_t copy, int32_t rank);  // -1: all ranks

    // What has ended may be used again.
    void recycle_row(int32_t row);
    void recycle_job(int32_t job, int32_t device);
    void recycle_instance(int32_t instance);
    void recycle_copy(int32_t copy);

    int32_t copy_of(int32_t row) const { return copy_of_row_[row]; }
    Copy& copy_at(int32_t copy) { return copies_[copy]; }
    const Score& score_at(int32_t score) const { return scores_[score]; }

   private:
    using Free = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;

    int32_t take_row();
    int32_t take_instance();
    void set_job(int64_t job, Transfer transfer, int32_t gate, int64_t order);
    int32_t new_copy(int32_t score);
    void append_rows(const Score& score);
    void append_instances(const Score& score);

    Workload w_;
    Plans plans_;
    Topology topology_;
    std::vector<double> payload_;  // by transfer: its bytes as the program counts them
    Pick no_policy_;
    std::unique_ptr<Network> network_;
    Simulation simulation_;
    Free free_rows_, free_instances_;
    std::vector<int32_t> copy_of_row_;
    std::vector<Score> scores_;
    std::vector<Copy> copies_;
};

}  // namespace chakra::sim::live
