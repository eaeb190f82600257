#include "core/timing/schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/graph/graph.hpp"

namespace chakra::schedule {

namespace {

using EventId = uint32_t;  // 2 * row for its start, 2 * row + 1 for its end

EventId start_of(int32_t row) {
    return 2 * static_cast<EventId>(row);
}
EventId end_of(int32_t row) {
    return start_of(row) + 1;
}
int32_t row_of(EventId event) {
    return static_cast<int32_t>(event >> 1);
}
bool is_end(EventId event) {
    return event & 1;
}

// Which constraint an event's time came from, numbered so that the lower one wins a tie:
// own duration, edges, then the resource (of a start) or the launch queue's kernel (of an end).
using Key = uint32_t;
constexpr Key kOwnKey = 0;
constexpr Key kLaneKey = 0x80000000;
constexpr Key kNoKey = 0xffffffff;

Key edge_key(int32_t edge) {
    return static_cast<Key>(edge) + 1;
}
Key queue_key(int32_t kernel) {
    return kLaneKey + static_cast<Key>(kernel);
}

EventId source(const Problem& p, size_t e) {
    return start_of(p.src[e]) + (p.form[e] != kStartStart);
}
EventId target(const Problem& p, size_t e) {
    return start_of(p.dst[e]) + (p.form[e] == kFinishFinish);
}

// An edge as its source event sees it.
struct Link {
    EventId to;
    int32_t edge;
    int64_t lag;
};

// Links grouped by source event.
struct Links {
    explicit Links(const Problem& p) : offsets(2 * p.durations.size() + 2, 0), all(p.src.size()) {
        // Counted two places ahead: filling then moves each offset to where it belongs.
        for (size_t e = 0; e < p.src.size(); ++e) ++offsets[source(p, e) + 2];
        std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
        for (size_t e = 0; e < p.src.size(); ++e)
            all[offsets[source(p, e) + 1]++] = {target(p, e), static_cast<int32_t>(e), p.lag[e]};
    }
    std::vector<uint32_t> offsets;
    std::vector<Link> all;
};

// The rows of every resource in the order they run.
struct Lanes {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> rows;

    size_t size() const { return offsets.size() - 1; }
    std::span<int32_t> lane(size_t r) {
        return std::span(rows).subspan(offsets[r], offsets[r + 1] - offsets[r]);
    }
};

Lanes group_by_resource(std::span<const int32_t> resource) {
    Lanes lanes;
    if (resource.empty()) return lanes;
    int32_t count = 1 + *std::max_element(resource.begin(), resource.end());
    lanes.offsets.assign(count + 1, 0);
    for (int32_t r : resource)
        if (r >= 0) ++lanes.offsets[r + 1];
    std::partial_sum(lanes.offsets.begin(), lanes.offsets.end(), lanes.offsets.begin());
    lanes.rows.resize(lanes.offsets.back());
    std::vector<int64_t> next(lanes.offsets.begin(), lanes.offsets.end() - 1);
    for (size_t v = 0; v < resource.size(); ++v)
        if (resource[v] >= 0) lanes.rows[next[resource[v]]++] = static_cast<int32_t>(v);
    return lanes;
}

void sort_lane(std::span<int32_t> lane, std::span<const int64_t> order) {
    auto before = [&](int32_t a, int32_t b) { return order[a] < order[b]; };
    // Recorded traces mostly come in order; a stable sort leaves equal keys by row.
    if (!std::is_sorted(lane.begin(), lane.end(), before))
        std::stable_sort(lane.begin(), lane.end(), before);
}

Lanes make_lanes(const Problem& p) {
    Lanes lanes = group_by_resource(p.resource);
    if (p.order.empty()) return lanes;
    for (size_t r = 0; r < lanes.size(); ++r) sort_lane(lanes.lane(r), p.order);
    return lanes;
}

// follower[v]: the row that runs after v on its resource, or -1.
std::vector<int32_t> followers(const Problem& p, Lanes& lanes) {
    std::vector<int32_t> follower(p.durations.size(), -1);
    for (size_t r = 0; r < lanes.size(); ++r) {
        auto lane = lanes.lane(r);
        for (size_t i = 1; i < lane.size(); ++i) follower[lane[i - 1]] = lane[i];
    }
    return follower;
}

// releases[v]: the launcher that kernel v lets end by starting, or -1. With a queue of depth D that
// is the launcher of the D-th launched kernel after v on its resource.
std::vector<int32_t> queue_releases(const Problem& p, Lanes& lanes) {
    std::vector<int32_t> releases(p.durations.size(), -1);
    if (p.queue_depth <= 0 || p.launch_of.empty()) return releases;
    std::vector<int32_t> launched;
    for (size_t r = 0; r < lanes.size(); ++r) {
        launched.clear();
        for (int32_t v : lanes.lane(r))
            if (p.launch_of[v] >= 0) launched.push_back(v);
        for (size_t k = p.queue_depth; k < launched.size(); ++k)
            releases[launched[k - p.queue_depth]] = p.launch_of[launched[k]];
    }
    return releases;
}

// Fires each event once all constraints on it are known. The order of firing does not matter to the
// outcome: times are maxima and ties are broken by key.
class Solver {
   public:
    explicit Solver(const Problem& p) : p_(p), links_(p), events_(2 * p.durations.size()) {
        Lanes lanes = make_lanes(p);
        follower_ = followers(p, lanes);
        releases_ = queue_releases(p, lanes);
        count_constraints();
    }

    Result run() && {
        ready_.reserve(events_.size());
        release_all();
        for (size_t at = 0; at < ready_.size(); ++at) fire(ready_[at]);
        fired_ = ready_.size();
        if (fired_ < events_.size()) return {{}, {}, circular_wait()};
        // What the outcome does not need makes room for it: the links are most of the memory.
        std::vector<Link>().swap(links_.all);
        std::vector<EventId>().swap(ready_);
        return {outcome(0), outcome(1), {}};
    }

   private:
    struct Event {
        int64_t time = std::numeric_limits<int64_t>::min();
        Key key = kNoKey;
        uint32_t pending = 0;
    };

    void count_constraints();
    void release_all();
    void fire(EventId event);
    void push(EventId event, int64_t time, int64_t delay, Key key);
    Events outcome(EventId which) const;
    void explain(Events& events, size_t row, Key key, bool end) const;
    std::vector<int64_t> unfired_causes(std::vector<Key>& keys) const;
    Circle circular_wait() const;

    const Problem& p_;
    Links links_;
    std::vector<int32_t> follower_, releases_;
    std::vector<Event> events_;
    std::vector<EventId> ready_;
    size_t fired_ = 0;
};

void Solver::count_constraints() {
    for (const Link& link : links_.all) ++events_[link.to].pending;
    for (int32_t v = 0; v < p_.rows(); ++v) {
        ++events_[end_of(v)].pending;
        if (follower_[v] >= 0) ++events_[start_of(follower_[v])].pending;
        if (releases_[v] >= 0) ++events_[end_of(releases_[v])].pending;
    }
}

// Gives every start its earliest time; those that wait for nothing else are ready.
void Solver::release_all() {
    for (int32_t v = 0; v < p_.rows(); ++v) {
        Event& start = events_[start_of(v)];
        start.time = p_.release.empty() ? 0 : p_.release[v];
        if (start.pending == 0) ready_.push_back(start_of(v));
    }
}

void Solver::fire(EventId event) {
    int64_t now = events_[event].time;
    int32_t row = row_of(event);
    for (uint32_t i = links_.offsets[event]; i < links_.offsets[event + 1]; ++i) {
        const Link& link = links_.all[i];
        push(link.to, now, link.lag, edge_key(link.edge));
    }
    if (!is_end(event)) {
        push(end_of(row), now, p_.durations[row], kOwnKey);
        if (releases_[row] >= 0) push(end_of(releases_[row]), now, 0, queue_key(row));
    } else if (follower_[row] >= 0) {
        push(start_of(follower_[row]), now, 0, kLaneKey);
    }
}

void Solver::push(EventId id, int64_t time, int64_t delay, Key key) {
    Event& event = events_[id];
    time = graph::checked_add(time, delay, row_of(id));
    if (time > event.time || (time == event.time && key < event.key)) {
        event.time = time;
        event.key = key;
    }
    if (--event.pending == 0) ready_.push_back(id);
}

// `which` is 0 for the starts, 1 for the ends.
Events Solver::outcome(EventId which) const {
    size_t n = p_.durations.size();
    Events events{std::vector<int64_t>(n), std::vector<int32_t>(n, -1), std::vector<int32_t>(n, -1),
                  std::vector<int8_t>(n, kNone)};
    for (size_t v = 0; v < n; ++v) {
        const Event& event = events_[2 * v + which];
        events.time[v] = event.time;
        explain(events, v, event.key, which);
    }
    if (which == 0)
        for (size_t v = 0; v < n; ++v)
            if (int32_t next = follower_[v]; next >= 0 && events.reason[next] == kResource)
                events.binding[next] = static_cast<int32_t>(v);
    return events;
}

void Solver::explain(Events& events, size_t row, Key key, bool end) const {
    if (key == kNoKey) return;
    if (key == kOwnKey) {
        events.reason[row] = kOwn;
    } else if (key < kLaneKey) {
        events.reason[row] = kDependency;
        events.edge[row] = static_cast<int32_t>(key - 1);
        events.binding[row] = p_.src[key - 1];
    } else if (end) {
        events.reason[row] = kQueue;
        events.binding[row] = static_cast<int32_t>(key - kLaneKey);
    } else {
        events.reason[row] = kResource;
    }
}

// For every event that never fired, one that it waits for and that never fired either.
std::vector<int64_t> Solver::unfired_causes(std::vector<Key>& keys) const {
    std::vector<int64_t> cause(events_.size(), -1);
    auto blame = [&](EventId waiting, EventId on, Key key) {
        if (events_[waiting].pending == 0 || events_[on].pending == 0 || cause[waiting] >= 0)
            return;
        cause[waiting] = on;
        keys[waiting] = key;
    };
    for (size_t e = 0; e < p_.src.size(); ++e)
        blame(target(p_, e), source(p_, e), edge_key(static_cast<int32_t>(e)));
    for (int32_t v = 0; v < p_.rows(); ++v) {
        if (follower_[v] >= 0) blame(start_of(follower_[v]), end_of(v), kLaneKey);
        if (releases_[v] >= 0) blame(end_of(releases_[v]), start_of(v), queue_key(v));
        blame(end_of(v), start_of(v), kOwnKey);
    }
    return cause;
}

Circle Solver::circular_wait() const {
    std::vector<Key> keys(events_.size(), kNoKey);
    std::vector<int64_t> cause = unfired_causes(keys);
    auto stuck = [](int64_t c) { return c >= 0; };
    auto first = std::find_if(cause.begin(), cause.end(), stuck);
    Circle circle{graph::close_cycle(cause, first - cause.begin()), {}, {}};
    std::reverse(circle.event.begin(), circle.event.end());  // each waits for the one after it
    for (int64_t event : circle.event) {
        Key key = keys[event];
        bool edge = key != kOwnKey && key < kLaneKey;
        Reason lane = is_end(static_cast<EventId>(event)) ? kQueue : kResource;
        circle.reason.push_back(key == kOwnKey ? kOwn : edge ? kDependency : lane);
        circle.edge.push_back(edge ? static_cast<int32_t>(key - 1) : -1);
    }
    return circle;
}

}  // namespace

Result solve(const Problem& problem) {
    return Solver(problem).run();
}

}  // namespace chakra::schedule
