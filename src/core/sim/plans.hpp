// What communication does to a network: links and routes, and plans of steps of transfers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace chakra::sim {

using Time = int64_t;  // picoseconds
constexpr Time kNever = std::numeric_limits<Time>::max();

// The clock's end, 50 days. No single amount of time is longer, so that a time within the horizon
// plus any amount fits 64 bits; what would happen later happens at kBeyond or after it, and ends
// the simulation.
constexpr Time kHorizon = Time{50} * 86'400 * 1'000'000'000'000;
constexpr Time kBeyond = kHorizon + 1;

// An amount of time, at most kBeyond.
inline Time amount(double picoseconds) {
    double whole = std::ceil(picoseconds);
    return whole <= static_cast<double>(kHorizon) ? static_cast<Time>(whole) : kBeyond;
}

// The time that work takes at a shared rate. Rates are quotients of sums: what they are off by,
// some 1e-15 of them, is no picosecond of its own when it goes beyond a whole one.
inline Time time_at_rate(double work, double rate) {
    double picoseconds = work / rate;
    return amount(picoseconds - std::min(picoseconds * 1e-12, 1e-3));
}

// An amount that comes `times` times, at most kBeyond.
inline Time repeated(Time each, int64_t times) {
    return each > 0 && times > kHorizon / each ? kBeyond : each * times;
}

// How a transfer shares links with others: strictly after higher classes, by weight within its own.
struct Rank {
    uint8_t priority = 0;  // the class, below kClasses
    uint16_t weight = 1;
};
constexpr int kClasses = 64;

// Links with their bandwidth in bytes per picosecond, and routes over them: route r crosses the
// links route_links[route_offsets[r] .. route_offsets[r + 1]).
struct Topology {
    std::vector<double> bandwidth;
    std::vector<int64_t> route_offsets;
    std::vector<int32_t> route_links;

    size_t links() const { return bandwidth.size(); }
    int32_t routes() const { return static_cast<int32_t>(route_offsets.size()) - 1; }
    std::span<const int32_t> route(int32_t r) const {
        return std::span(route_links)
            .subspan(route_offsets[r], route_offsets[r + 1] - route_offsets[r]);
    }
};

// Plans are directed acyclic graphs of steps. A step starts when those in `after` (earlier steps of
// the same plan) have ended, moves all its transfers at once, ends with the last of them, and does
// that `repeat` times. A transfer waits for its delay (latency), then its bytes flow. Within a step
// transfers are sorted by delay.
struct Plans {
    std::vector<int64_t> plan_steps;  // offsets into steps, by plan
    std::vector<int64_t> repeat;      // by step
    std::vector<int64_t> after_offsets;
    std::vector<int32_t> after;           // numbers within the plan
    std::vector<int64_t> step_transfers;  // offsets into transfers, by step
    std::vector<int32_t> route;           // by transfer
    std::vector<double> bytes;
    std::vector<Time> delay;

    int32_t plans() const { return static_cast<int32_t>(plan_steps.size()) - 1; }
    int32_t steps_of(int32_t plan) const {
        return static_cast<int32_t>(plan_steps[plan + 1] - plan_steps[plan]);
    }
    std::span<const int32_t> after_of(int64_t step) const {
        return std::span(after).subspan(after_offsets[step],
                                        after_offsets[step + 1] - after_offsets[step]);
    }
};

}  // namespace chakra::sim
