// The kernel under the scheduler and the simulator's engine: the start and the end of every row as
// events that hold each other back.
//
//     start(v) = max(release(v), end(previous on an ordered lane), FS: end(u) + lag,
//                    SS: start(u) + lag)
//     end(v)   = max(own end, FF: end(u) + lag, start(kernel that must leave the launch queue))
//
// The kernel knows which event holds which back. Its caller decides when an event fires, in which
// order, and when a row's own work ends: the scheduler adds a duration, the engine simulates.
#pragma once

#include <limits>
#include <vector>

#include "core/graph/graph.hpp"
#include "core/timing/lanes.hpp"

namespace chakra::timing {

using EventId = uint32_t;  // 2 * row for its start, 2 * row + 1 for its end

inline EventId start_of(int32_t row) {
    return 2 * static_cast<EventId>(row);
}
inline EventId end_of(int32_t row) {
    return start_of(row) + 1;
}
inline int32_t row_of(EventId event) {
    return static_cast<int32_t>(event >> 1);
}
inline bool is_end(EventId event) {
    return event & 1;
}

inline EventId source(const Constraints& c, size_t edge) {
    return start_of(c.src[edge]) + (c.form[edge] != kStartStart);
}
inline EventId target(const Constraints& c, size_t edge) {
    return start_of(c.dst[edge]) + (c.form[edge] == kFinishFinish);
}

// The constraint that an event's time came from, numbered so that the lowest wins a tie: the own
// end, then edges by number, then the lane (of a start) or the launch queue's kernel (of an end).
using Key = uint32_t;
constexpr Key kOwnKey = 0;
constexpr Key kLaneKey = 0x80000000;
constexpr Key kNoKey = 0xffffffff;  // nothing but the release

inline Key edge_key(int32_t edge) {
    return static_cast<Key>(edge) + 1;
}
inline int32_t edge_of(Key key) {
    return static_cast<int32_t>(key - 1);
}
inline Key queue_key(int32_t kernel) {
    return kLaneKey + static_cast<Key>(kernel);
}
inline int32_t kernel_of(Key key) {
    return static_cast<int32_t>(key - kLaneKey);
}
inline Reason reason_of(Key key, EventId event) {
    if (key == kNoKey) return kNone;
    if (key == kOwnKey) return kOwn;
    if (key < kLaneKey) return kDependency;
    return is_end(event) ? kQueue : kResource;
}

class Kernel {
   public:
    // An event: the latest time any constraint has given it so far, which one that was, and how
    // many constraints are still to come.
    struct Event {
        int64_t time = std::numeric_limits<int64_t>::min();
        Key key = kNoKey;
        uint32_t pending = 0;
    };

    // Every start is released at 0 and every end waits for the row's own end.
    explicit Kernel(const Constraints& c) { append(c); }

    // More rows, which the constraints number from 0; their numbers here follow those there are.
    void append(const Constraints& c);

    // A row without edges and without an ordered lane, as if it had not run.
    void reset(int32_t row) {
        events_[start_of(row)] = {.time = 0};
        events_[end_of(row)] = {.pending = 1};
    }

    size_t size() const { return events_.size(); }
    Event& operator[](EventId event) { return events_[event]; }
    const Event& operator[](EventId event) const { return events_[event]; }
    const Lanes& lanes() const { return lanes_; }

    // One of the constraints on `event` is known: it happens no earlier than time + delay. Calls
    // `due(event)` after the last one. Throws std::overflow_error if the time does not fit 64 bits.
    template <class Due>
    void constrain(EventId event, int64_t time, int64_t delay, Key key, Due&& due) {
        Event& e = events_[event];
        time = graph::checked_add(time, delay, row_of(event));
        if (time > e.time || (time == e.time && key < e.key)) {
            e.time = time;
            e.key = key;
        }
        if (--e.pending == 0) due(event);
    }

    // `event` happens at `now`: tells every event that its edges, its lane or the launch queue
    // hold back.
    template <class Due>
    void fire(EventId event, int64_t now, Due&& due) {
        for (uint32_t i = offsets_[event]; i < offsets_[event + 1]; ++i) {
            const Link& link = links_[i];
            constrain(link.to, now, link.lag, edge_key(link.edge), due);
        }
        int32_t row = row_of(event);
        if (is_end(event)) {
            int32_t next = lanes_.follower[row];
            if (next >= 0) constrain(start_of(next), now, 0, kLaneKey, due);
        } else {
            int32_t launcher = lanes_.releases[row];
            if (launcher >= 0) constrain(end_of(launcher), now, 0, queue_key(row), due);
        }
    }

    // Gives back the memory of the edges, which is most of it; nothing fires any more.
    void release_edges() { std::vector<Link>().swap(links_); }

   private:
    // An edge as its source event sees it.
    struct Link {
        EventId to;
        int32_t edge;
        int64_t lag;
    };

    void append_links(const Constraints& c);
    void count_constraints(const Constraints& c, const Lanes& lanes);

    Lanes lanes_;
    std::vector<uint32_t> offsets_;  // by source event, into links_
    std::vector<Link> links_;
    std::vector<Event> events_;
};

}  // namespace chakra::timing
