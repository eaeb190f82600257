// The interface of a network: jobs run plans, and the engine asks when something happens next.
//
// At one time the engine calls `step` as often as jobs are started, then `settle` once: what
// happens at one time happens together, so no outcome depends on the order within it.
#pragma once

#include <vector>

#include "core/sim/link_meter.hpp"
#include "core/sim/plans.hpp"

namespace chakra::sim {

// A transfer that began and has not ended: its job, its number in the plans, the bytes that are
// left of it, and the rounds of its step that are left, this one included.
struct Unfinished {
    int32_t job;
    int64_t transfer;
    double remaining;
    int64_t rounds;
};

class Network {
   public:
    explicit Network(size_t links) : meter_(links) {}
    virtual ~Network() = default;

    // What the links showed so far.
    const LinkMeter& meter() const { return meter_; }

    // Runs a plan from now on, all its transfers of one rank; `job` is the caller's name for it and
    // not in use.
    virtual void start(int32_t job, int32_t plan, Rank rank, Time now) = 0;

    // When something happens next, or kNever.
    virtual Time next_time() = 0;

    // Handles all that is due now, and names the jobs that have ended.
    virtual void step(Time now, std::vector<int32_t>& finished) = 0;

    // Shares the links anew after everything due now is handled.
    virtual void settle(Time now) = 0;

    // From now on the link has `factor` times its bandwidth; 0 lets nothing through.
    virtual void scale_link(int32_t link, double factor, Time now) = 0;

    // There are more plans, and routes that they use.
    virtual void grow() = 0;

    // What is on its way now, where the network knows.
    virtual std::vector<Unfinished> unfinished() const { return {}; }

   protected:
    LinkMeter meter_;
};

}  // namespace chakra::sim
