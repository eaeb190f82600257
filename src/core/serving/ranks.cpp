// Engines that step together and lose one of them.
#include <algorithm>

#include "core/serving/cluster.hpp"

namespace chakra::serving {

namespace {

size_t at(int32_t i) {
    return static_cast<size_t>(i);
}

}  // namespace

// The first rank that is there, or -1.
int32_t Cluster::alive(const Group& group) const {
    for (int32_t e = group.first; e < group.last; ++e) {
        if (!down_[at(e)]) return e;
    }
    return -1;
}

// Whether the ranks that are there can begin a step together: one that has come back waits until
// the step that the others are in has ended.
bool Cluster::all_may_form(const Group& group) const {
    for (int32_t e = group.first; e < group.last; ++e) {
        if (!down_[at(e)] && !engines_[at(e)].may_form()) return false;
    }
    return alive(group) >= 0;
}

// What the ranks that are there do together.
Time Cluster::together(const Group& group, int64_t tokens) {
    const Pool& pool = problem_.pools[group.pool];
    if (!pool.shared) return 0;
    int64_t ranks = std::count(down_.begin() + group.first, down_.begin() + group.last, 0);
    if (ranks == group.last - group.first || !pool.shared_by_fewer)
        return shared_[group.pool](tokens);
    auto known = shared_by_fewer_.find({group.pool, ranks});
    if (known == shared_by_fewer_.end()) {
        auto ask = [&pool, ranks](int64_t n) { return pool.shared_by_fewer(n, ranks); };
        known = shared_by_fewer_.emplace(std::pair{group.pool, ranks}, Memo(ask)).first;
    }
    return known->second(tokens);
}

void Cluster::fail_rank(const RankFault& fault) {
    if (down_[at(fault.engine)]) return;  // its whole group is down
    ++failures_;
    int32_t g = group_of_[at(fault.engine)];
    const Group& group = groups_[at(g)];
    down_[at(fault.engine)] = 1;
    for (int32_t r : engines_[at(fault.engine)].fail(now_)) push(now_, Kind::arrival, r);
    Time until = paused_[at(g)] = std::max(paused_[at(g)], now_ + fault.pause);
    for (int32_t e = group.first; e < group.last; ++e) {
        announced_[at(e)] = NEVER;
        if (e != fault.engine && !down_[at(e)]) engines_[at(e)].pause(now_, until);
    }
    push(until, Kind::resumed, g);
    auto number = static_cast<int32_t>(&fault - problem_.rank_faults.data());
    if (fault.away > 0) push(now_ + fault.away, Kind::rank_back, number);
}

// The others finish their step and wait until it has what it needs.
void Cluster::return_rank(const RankFault& fault) {
    int32_t g = group_of_[at(fault.engine)];
    paused_[at(g)] = std::max(paused_[at(g)], now_ + fault.back_pause);
    push(paused_[at(g)], Kind::repaired, fault.engine);
}

}  // namespace chakra::serving
