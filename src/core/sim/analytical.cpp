#include "core/sim/analytical.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace chakra::sim {

Analytical::Analytical(const Topology& topology, const Plans& plans)
    : Network(topology.links()),
      topology_(topology),
      plans_(plans),
      bandwidth_(topology.bandwidth.begin(), topology.bandwidth.end()) {
    grow();
}

void Analytical::grow() {
    known_.resize(plans_.plans(), -1);
    known_epoch_.resize(plans_.plans(), 0);
}

void Analytical::start(int32_t job, int32_t plan, Rank, Time now) {
    if (known_[plan] < 0 || known_epoch_[plan] != epoch_) {
        known_[plan] = plan_time(plan);
        known_epoch_[plan] = epoch_;
        meter_plan(plan, now);
    }
    if (known_[plan] == kNever)
        stopped_.emplace_back(job, plan);
    else
        ends_.emplace(now + known_[plan], job);
}

void Analytical::step(Time now, std::vector<int32_t>& finished) {
    for (; !ends_.empty() && ends_.top().first <= now; ends_.pop())
        finished.push_back(ends_.top().second);
}

// What found a link without bandwidth starts anew, and waits on where there is still one.
void Analytical::scale_link(int32_t link, double factor, Time now) {
    bandwidth_[link] = topology_.bandwidth[link] * factor;
    ++epoch_;
    for (auto [job, plan] : std::exchange(stopped_, {})) start(job, plan, {}, now);
}

// The longest way through the plan's steps.
Time Analytical::plan_time(int32_t plan) {
    int64_t first = plans_.plan_steps[plan];
    std::vector<Time> end(plans_.steps_of(plan), 0);
    Time last = 0;
    for (size_t s = 0; s < end.size(); ++s) {
        Time start = 0;
        for (int32_t before : plans_.after_of(first + s)) start = std::max(start, end[before]);
        Time taken = step_time(first + s);
        if (taken == kNever) return kNever;
        end[s] = std::min(kBeyond, start + repeated(taken, plans_.repeat[first + s]));
        last = std::max(last, end[s]);
    }
    return last;
}

Time Analytical::step_time(int64_t step) const {
    Time longest = 0;
    for (int64_t t = plans_.step_transfers[step]; t < plans_.step_transfers[step + 1]; ++t)
        longest = std::max(longest, transfer_time(t));
    return longest;
}

// The narrowest link of a route holds its transfer back.
void Analytical::meter_plan(int32_t plan, Time now) {
    int64_t first = plans_.step_transfers[plans_.plan_steps[plan]];
    int64_t last = plans_.step_transfers[plans_.plan_steps[plan + 1]];
    for (int64_t t = first; t < last; ++t) {
        auto route = topology_.route(plans_.route[t]);
        if (route.empty() || plans_.bytes[t] == 0) continue;
        int32_t narrow = *std::min_element(route.begin(), route.end(), [&](int32_t a, int32_t b) {
            return bandwidth_[a] < bandwidth_[b];
        });
        meter_.see_full(narrow, bandwidth_[narrow], now);
    }
}

Time Analytical::transfer_time(int64_t transfer) const {
    if (plans_.bytes[transfer] == 0) return plans_.delay[transfer];
    double rate = std::numeric_limits<double>::infinity();
    for (int32_t link : topology_.route(plans_.route[transfer]))
        rate = std::min(rate, bandwidth_[link]);
    if (rate <= 0) return kNever;
    return std::min(kBeyond, plans_.delay[transfer] + amount(plans_.bytes[transfer] / rate));
}

}  // namespace chakra::sim
