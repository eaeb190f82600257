// A network without contention: each transfer takes its delay plus its bytes over the narrowest
// link of its route.
#pragma once

#include <queue>
#include <utility>

#include "core/sim/network.hpp"

namespace chakra::sim {

// The end of a job is known when it starts, so a link that is scaled changes later jobs only, and
// those that found a link without any bandwidth: they start over when links change.
class Analytical final : public Network {
   public:
    Analytical(const Topology& topology, const Plans& plans);

    void start(int32_t job, int32_t plan, Rank rank, Time now) override;
    Time next_time() override { return ends_.empty() ? kNever : ends_.top().first; }
    void step(Time now, std::vector<int32_t>& finished) override;
    void settle(Time) override {}
    void scale_link(int32_t link, double factor, Time now) override;
    void grow() override;

   private:
    using End = std::pair<Time, int32_t>;

    Time plan_time(int32_t plan);
    void meter_plan(int32_t plan, Time now);
    Time step_time(int64_t step) const;
    Time transfer_time(int64_t transfer) const;

    const Topology& topology_;
    const Plans& plans_;
    std::vector<double> bandwidth_;
    std::vector<Time> known_;            // by plan, or -1
    std::vector<uint32_t> known_epoch_;  // by plan: with the links as they were then
    uint32_t epoch_ = 0;                 // how often links have changed
    std::vector<std::pair<int32_t, int32_t>>
        stopped_;  // jobs that found a failed link, their plans
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace chakra::sim
