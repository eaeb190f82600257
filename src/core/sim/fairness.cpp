#include "core/sim/fairness.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace chakra::sim {

namespace {
constexpr double kTie = 1 + 1e-9;
constexpr int kFixedPoint = 80;
}  // namespace

Sharing::Fixed Sharing::fixed(double rate) {
    return static_cast<Fixed>(std::ldexp(rate, kFixedPoint));
}

double Sharing::share_of(int32_t link) const {
    double left = capacity[link] - std::ldexp(static_cast<double>(used[link]), -kFixedPoint);
    return std::max(0.0, left) / open_[link];
}

void Sharing::clear() {
    capacity.clear();
    used.clear();
    offsets.assign(1, 0);
    links.clear();
}

void Sharing::index_links() {
    of_link.assign(capacity.size() + 2, 0);
    for (int32_t l : links) ++of_link[l + 2];
    std::partial_sum(of_link.begin(), of_link.end(), of_link.begin());
    link_flows.resize(links.size());
    for (size_t f = 0; f + 1 < offsets.size(); ++f)
        for (int64_t i = offsets[f]; i < offsets[f + 1]; ++i)
            link_flows[of_link[links[i] + 1]++] = static_cast<int32_t>(f);
}

void Sharing::solve() {
    index_links();
    used.resize(capacity.size(), 0);
    rate.assign(offsets.size() - 1, -1);
    full.clear();
    frozen_.assign(capacity.size(), 0);
    open_.resize(capacity.size());
    active_.clear();
    for (size_t l = 0; l < capacity.size(); ++l) {
        open_[l] = static_cast<int32_t>(of_link[l + 1] - of_link[l]);
        if (open_[l]) active_.push_back(static_cast<int32_t>(l));
    }
    while (!active_.empty()) give(smallest_share());
}

double Sharing::smallest_share() {
    double least = std::numeric_limits<double>::infinity();
    for (int32_t l : active_) least = std::min(least, share_of(l));
    tight_.clear();
    for (int32_t l : active_)
        if (share_of(l) <= least * kTie) tight_.push_back(l);
    full.insert(full.end(), tight_.begin(), tight_.end());
    return least;
}

void Sharing::give(double share) {
    touched_.clear();
    for (int32_t l : tight_)
        for (int64_t i = of_link[l]; i < of_link[l + 1]; ++i)
            if (rate[link_flows[i]] < 0) freeze(link_flows[i], share);
    for (int32_t l : touched_) {
        used[l] += fixed(share) * frozen_[l];
        open_[l] -= frozen_[l];
        frozen_[l] = 0;
    }
    std::erase_if(active_, [&](int32_t l) { return open_[l] == 0; });
}

void Sharing::freeze(int32_t flow, double share) {
    rate[flow] = share;
    for (int64_t i = offsets[flow]; i < offsets[flow + 1]; ++i)
        if (frozen_[links[i]]++ == 0) touched_.push_back(links[i]);
}

}  // namespace chakra::sim
