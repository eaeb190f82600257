#include "core/timing/schedule.hpp"

#include <algorithm>

#include "core/timing/kernel.hpp"

namespace chakra::schedule {

namespace {

// Fires each event once all constraints on it are known. The order of firing does not matter to the
// outcome: times are maxima and ties are broken by key.
class Solver {
   public:
    explicit Solver(const Problem& p) : p_(p), c_(p.constraints()), kernel_(c_) {}

    Result run() && {
        ready_.reserve(kernel_.size());
        release_all();
        for (size_t at = 0; at < ready_.size(); ++at) fire(ready_[at]);
        if (ready_.size() < kernel_.size()) return {{}, {}, circular_wait()};
        // What the outcome does not need makes room for it.
        kernel_.release_edges();
        std::vector<EventId>().swap(ready_);
        return {outcome(0), outcome(1), {}};
    }

   private:
    void release_all();
    void fire(EventId event);
    Events outcome(EventId which) const;
    void explain(Events& events, size_t row, Key key, EventId event) const;
    std::vector<int64_t> unfired_causes(std::vector<Key>& keys) const;
    Circle circular_wait() const;

    const Problem& p_;
    Constraints c_;
    Kernel kernel_;
    std::vector<EventId> ready_;
};

// Gives every start its earliest time; those that wait for nothing else are ready.
void Solver::release_all() {
    for (int32_t v = 0; v < p_.rows(); ++v) {
        Kernel::Event& start = kernel_[start_of(v)];
        if (!p_.release.empty()) start.time = p_.release[v];
        if (start.pending == 0) ready_.push_back(start_of(v));
    }
}

void Solver::fire(EventId event) {
    auto due = [&](EventId next) { ready_.push_back(next); };
    int64_t now = kernel_[event].time;
    kernel_.fire(event, now, due);
    if (is_end(event)) return;
    kernel_.constrain(event + 1, now, p_.durations[row_of(event)], kOwnKey, due);
}

// `which` is 0 for the starts, 1 for the ends.
Events Solver::outcome(EventId which) const {
    size_t n = p_.durations.size();
    Events events{std::vector<int64_t>(n), std::vector<int32_t>(n, -1), std::vector<int32_t>(n, -1),
                  std::vector<int8_t>(n, kNone)};
    for (size_t v = 0; v < n; ++v) {
        EventId id = static_cast<EventId>(2 * v) + which;
        events.time[v] = kernel_[id].time;
        explain(events, v, kernel_[id].key, id);
    }
    if (which == 0)
        for (size_t v = 0; v < n; ++v)
            if (int32_t next = kernel_.lanes().follower[v];
                next >= 0 && events.reason[next] == kResource)
                events.binding[next] = static_cast<int32_t>(v);
    return events;
}

void Solver::explain(Events& events, size_t row, Key key, EventId event) const {
    Reason reason = reason_of(key, event);
    events.reason[row] = reason;
    if (reason == kDependency) {
        events.edge[row] = edge_of(key);
        events.binding[row] = p_.src[edge_of(key)];
    } else if (reason == kQueue) {
        events.binding[row] = kernel_of(key);
    }
}

// For every event that never fired, one that it waits for and that never fired either.
std::vector<int64_t> Solver::unfired_causes(std::vector<Key>& keys) const {
    std::vector<int64_t> cause(kernel_.size(), -1);
    auto blame = [&](EventId waiting, EventId on, Key key) {
        if (kernel_[waiting].pending == 0 || kernel_[on].pending == 0 || cause[waiting] >= 0)
            return;
        cause[waiting] = on;
        keys[waiting] = key;
    };
    for (size_t e = 0; e < p_.src.size(); ++e)
        blame(target(c_, e), source(c_, e), edge_key(static_cast<int32_t>(e)));
    const Lanes& lanes = kernel_.lanes();
    for (int32_t v = 0; v < p_.rows(); ++v) {
        if (lanes.follower[v] >= 0) blame(start_of(lanes.follower[v]), end_of(v), kLaneKey);
        if (lanes.releases[v] >= 0) blame(end_of(lanes.releases[v]), start_of(v), queue_key(v));
        blame(end_of(v), start_of(v), kOwnKey);
    }
    return cause;
}

Circle Solver::circular_wait() const {
    std::vector<Key> keys(kernel_.size(), kNoKey);
    std::vector<int64_t> cause = unfired_causes(keys);
    auto stuck = [](int64_t c) { return c >= 0; };
    auto first = std::find_if(cause.begin(), cause.end(), stuck);
    Circle circle{graph::close_cycle(cause, first - cause.begin()), {}, {}};
    std::reverse(circle.event.begin(), circle.event.end());  // each waits for the one after it
    for (int64_t event : circle.event) {
        Reason reason = reason_of(keys[event], static_cast<EventId>(event));
        circle.reason.push_back(reason);
        circle.edge.push_back(reason == kDependency ? edge_of(keys[event]) : -1);
    }
    return circle;
}

}  // namespace

Result solve(const Problem& problem) {
    return Solver(problem).run();
}

}  // namespace chakra::schedule
