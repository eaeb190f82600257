#include "core/sim/fairness.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace chakra::sim {

namespace {
constexpr double kTie = 1 + 1e-9;
constexpr double kOne = 0x1p80;  // 1 in fixed point
}  // namespace

Sharing::Fixed Sharing::fixed(double rate) {
    return static_cast<Fixed>(rate * kOne);
}

double Sharing::share_of(int32_t link) const {
    double left = capacity[link] - static_cast<double>(used[link]) / kOne;
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
    place_.resize(capacity.size());
    active_.clear();
    share_.clear();
    for (size_t l = 0; l < capacity.size(); ++l) {
        open_[l] = static_cast<int32_t>(of_link[l + 1] - of_link[l]);
        if (!open_[l]) continue;
        place_[l] = static_cast<int32_t>(active_.size());
        active_.push_back(static_cast<int32_t>(l));
        share_.push_back(share_of(static_cast<int32_t>(l)));
    }
    while (!active_.empty()) give(smallest_share());
}

double Sharing::smallest_share() {
    double least = std::numeric_limits<double>::infinity();
    for (double share : share_) least = share < least ? share : least;
    tight_.clear();
    for (size_t i = 0; i < share_.size(); ++i)
        if (share_[i] <= least * kTie) tight_.push_back(active_[i]);
    full.insert(full.end(), tight_.begin(), tight_.end());
    return least;
}

void Sharing::give(double share) {
    touched_.clear();
    for (int32_t l : tight_)
        for (int64_t i = of_link[l]; i < of_link[l + 1]; ++i)
            if (rate[link_flows[i]] < 0) freeze(link_flows[i], share);
    Fixed each = fixed(share);
    for (int32_t l : touched_) {
        used[l] += each * frozen_[l];
        open_[l] -= frozen_[l];
        frozen_[l] = 0;
        if (open_[l])
            share_[place_[l]] = share_of(l);
        else
            drop(l);
    }
}

void Sharing::drop(int32_t link) {
    int32_t place = place_[link], last = active_.back();
    active_[place] = last;
    share_[place] = share_.back();
    place_[last] = place;
    active_.pop_back();
    share_.pop_back();
}

void Sharing::freeze(int32_t flow, double share) {
    rate[flow] = share;
    for (int64_t i = offsets[flow]; i < offsets[flow + 1]; ++i)
        if (frozen_[links[i]]++ == 0) touched_.push_back(links[i]);
}

}  // namespace chakra::sim
