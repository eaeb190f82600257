// Requests that depend on others, come in groups, or are made by a source while the run goes on.
#include <algorithm>
#include <numeric>

#include "core/serving/check.hpp"
#include "core/serving/cluster.hpp"

namespace chakra::serving {

namespace {

size_t at(int32_t i) {
    return static_cast<size_t>(i);
}

constexpr int64_t MOST_IDLE = 100000;  // a day of seconds without anything to do

}  // namespace

// Enters a request with those that it waits for; where all of these have ended it is announced.
void Cluster::follow(int32_t request) {
    followers_.resize(requests_.size());
    parents_left_.resize(requests_.size(), 0);
    Time ended = 0;
    bool any = false;
    for (int64_t k = 0; k < requests_.parents; ++k) {
        int64_t parent = requests_.after[at(request) * static_cast<size_t>(requests_.parents) +
                                         static_cast<size_t>(k)];
        if (parent < 0) continue;
        any = true;
        const Progress& p = progress_[static_cast<size_t>(parent)];
        if (p.finished != NEVER) {
            ended = std::max(ended, p.finished);
            continue;
        }
        followers_[static_cast<size_t>(parent)].push_back(request);
        ++parents_left_[at(request)];
    }
    if (any && parents_left_[at(request)] == 0)
        push(std::max(now_, ended + requests_.arrival[at(request)]), Kind::arrival, request);
}

void Cluster::note_group(int32_t request) {
    int64_t group = Requests::or_none(requests_.group, at(request));
    if (group < 0) return;
    auto g = static_cast<size_t>(group);
    if (g >= group_arrived_.size()) group_arrived_.resize(g + 1, NEVER);
    if (group_arrived_[g] == NEVER) group_arrived_[g] = now_;
}

Time Cluster::deadline(int32_t request) const {
    Time within = Requests::or_none(requests_.deadline, at(request));
    if (within < 0) return NEVER;
    int64_t group = Requests::or_none(requests_.group, at(request));
    bool known = group >= 0 && static_cast<size_t>(group) < group_arrived_.size();
    Time from = known ? group_arrived_[static_cast<size_t>(group)] : progress_[at(request)].arrived;
    return from == NEVER ? NEVER : from + within;
}

void Cluster::ask_source() {
    std::vector<int32_t> ended;
    ended.swap(ended_now_);
    std::shared_ptr<const Requests> more = problem_.hooks.next(now_, ended);
    if (more && more->size() > 0) add(*more);
}

void Cluster::add(const Requests& more) {
    auto first = static_cast<int32_t>(requests_.size());
    grown_->append(more);
    progress_.resize(requests_.size());
    target_.resize(requests_.size(), -1);
    if (!missed_.empty()) missed_.resize(requests_.size(), 0);
    left_ += static_cast<int64_t>(more.size());
    mean_prompt_ = std::accumulate(requests_.prompt.begin(), requests_.prompt.end(), 0.0) /
                   static_cast<double>(requests_.size());
    for (auto r = first; at(r) < requests_.size(); ++r) {
        follow(r);
        if (!requests_.follows(at(r)))
            push(std::max(now_, requests_.arrival[at(r)]), Kind::arrival, r);
    }
}

// Whether a source that is asked from time to time may still have something.
bool Cluster::source_waits() const {
    return problem_.hooks.next && (happened_ == 0 || problem_.hooks.source_interval > 0);
}

// Whether only the clock goes on: nothing runs, and what waits nobody takes.
bool Cluster::stuck() {
    int64_t periodic = (problem_.hooks.scale ? 1 : 0) +
                       (problem_.hooks.next && problem_.hooks.source_interval > 0 ? 1 : 0);
    bool only_clock = periodic > 0 && static_cast<int64_t>(events_.size()) <= periodic;
    idle_ = only_clock ? idle_ + 1 : 0;
    return idle_ > MOST_IDLE;
}

}  // namespace chakra::serving
