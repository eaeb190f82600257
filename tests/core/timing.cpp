#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/timing/kernel.hpp"
#include "core/timing/lanes.hpp"
#include "core/timing/nest.hpp"
#include "core/timing/schedule.hpp"
#include "harness.hpp"

using namespace chakra;
using namespace chakra::schedule;

namespace {

using Times = std::vector<int64_t>;
using Rows = std::vector<int32_t>;
using Reasons = std::vector<int8_t>;

struct Edge {
    int32_t src, dst;
    Form form = kFinishStart;
    int64_t lag = 0;
};

// What a Problem only looks at.
struct Case {
    std::vector<Edge> edges;
    Times durations;
    Rows resource = {};
    Times order = {}, release = {};
    Rows launch_of = {};
    int64_t queue_depth = 0;

    Result solve() const {
        Rows src, dst;
        Reasons form;
        Times lag;
        for (const Edge& e : edges) {
            src.push_back(e.src), dst.push_back(e.dst);
            form.push_back(e.form), lag.push_back(e.lag);
        }
        return schedule::solve(
            {src, dst, form, lag, durations, resource, order, release, launch_of, queue_depth});
    }
};

}  // namespace

STORY("a row that depends on another starts when that has ended, and the lag after") {
    Result r = Case{{{0, 1}, {0, 2, kFinishStart, 4}}, {10, 5, 1}}.solve();
    EXPECT(r.start.time, {0, 10, 14});
    EXPECT(r.end.time, {10, 15, 15});
    EXPECT(r.start.reason, {kNone, kDependency, kDependency});
    EXPECT(r.start.binding, {-1, 0, 0});
    EXPECT(r.start.edge, {-1, 0, 1});
    EXPECT(r.end.reason, {kOwn, kOwn, kOwn});
}

STORY("start-to-start edges let a kernel begin while its launcher runs") {
    Result r = Case{{{0, 1, kStartStart, 3}}, {10, 20}}.solve();
    EXPECT(r.start.time, {0, 3});
    EXPECT(r.end.time, {10, 23});
}

STORY("finish-to-finish edges hold the end back, not the start") {
    Result r = Case{{{0, 1, kFinishFinish, 2}}, {10, 5}}.solve();
    EXPECT(r.start.time, {0, 0});
    EXPECT(r.end.time, {10, 12});
    EXPECT(r.end.reason, {kOwn, kDependency});
    EXPECT(r.end.binding, {-1, 0});
}

STORY("a negative lag starts a row before the other ends, but not before its release") {
    Result r = Case{{{0, 1, kFinishStart, -4}}, {10, 1}, {}, {}, {0, 2}}.solve();
    EXPECT(r.start.time, {0, 6});
    r = Case{{{0, 1, kFinishStart, -9}}, {10, 1}, {}, {}, {0, 2}}.solve();
    EXPECT(r.start.time, {0, 2});
    EXPECT(r.start.reason, {kNone, kNone});
}

STORY("a resource runs its rows one at a time, in the given order or by row") {
    Case c{{}, {5, 6, 7, 8}, {0, 0, -1, 0}};
    EXPECT(c.solve().start.time, {0, 5, 0, 11});
    EXPECT(c.solve().start.reason, {kNone, kResource, kNone, kResource});
    EXPECT(c.solve().start.binding, {-1, 0, -1, 1});
    c.order = {3, 1, 0, 1};  // equal places keep the order of rows
    EXPECT(c.solve().start.time, {14, 0, 0, 6});
}

STORY("of equal constraints the dependency with the lowest edge is named") {
    Result r = Case{{{1, 2}, {0, 2}}, {5, 5, 1}, {0, -1, 0}}.solve();
    EXPECT(r.start.time, {0, 0, 5});
    EXPECT(r.start.binding[2], 1);
    EXPECT(r.start.edge[2], 0);
}

STORY("a launch queue of depth one lets a launcher end when the kernel before has started") {
    // Rows 0 to 2 launch 3 to 5; the kernels run on one stream.
    Case c{{{0, 3, kStartStart, 1}, {1, 4, kStartStart, 1}, {2, 5, kStartStart, 1}},
           {2, 2, 2, 100, 100, 100},
           {0, 0, 0, 1, 1, 1},
           {},
           {},
           {-1, -1, -1, 0, 1, 2}};
    EXPECT(c.solve().end.time, {2, 4, 6, 101, 201, 301});
    c.queue_depth = 1;
    Result r = c.solve();
    EXPECT(r.end.time, {2, 4, 101, 101, 201, 301});
    EXPECT(r.end.reason[2], kQueue);
    EXPECT(r.end.binding[2], 4);
}

STORY("a circular wait is named event by event, with the reason of each") {
    // Row 1 comes first on the stream and waits for row 0, which comes after it.
    Result r = Case{{{0, 1}}, {1, 1}, {0, 0}, {1, 0}}.solve();
    EXPECT(r.start.time.size(), 0);
    std::vector<int64_t> sorted = r.circle.event;
    std::sort(sorted.begin(), sorted.end());
    EXPECT(sorted, {0, 1, 2, 3});
    for (size_t i = 0; i < r.circle.event.size(); ++i) {
        switch (r.circle.event[i]) {
            case 0: EXPECT(r.circle.reason[i], kResource); break;
            case 2:
                EXPECT(r.circle.reason[i], kDependency);
                EXPECT(r.circle.edge[i], 0);
                break;
            default: EXPECT(r.circle.reason[i], kOwn);
        }
    }
}

STORY("a row that waits for its own end is a circle of its two events") {
    Result r = Case{{{0, 0}}, {1}}.solve();
    EXPECT(r.circle.event.size(), 2);
    EXPECT(Case({{{0, 0, kFinishFinish}}, {1}}).solve().circle.event, {1});
}

STORY("a time that does not fit 64 bits is refused with its row") {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    REFUSES(std::overflow_error, "row 1", Case({{{0, 1}}, {most, 1}}).solve());
}

STORY("no rows need no time") {
    EXPECT(Case{}.solve().start.time, {});
}

STORY("lanes become links between rows: order, launch queues, and neither for pools") {
    Rows lane{0, 0, 1, 1, 2, 2, -1}, launch_of{-1, 6, -1, 6, -1, 6, -1};
    Times order{1, 0, 0, 1, 0, 1, 0};
    Reasons kinds{kOrdered, kPool, kQueueOnly};
    Constraints c{7, {}, {}, {}, {}, lane, order, launch_of, kinds, 1};
    Lanes lanes(c);
    EXPECT(lanes.follower, {-1, 0, -1, -1, -1, -1, -1});
    EXPECT(lanes.releases, {-1, -1, -1, -1, -1, -1, -1});  // one launch per lane fills no queue
    launch_of[0] = launch_of[4] = 6;
    EXPECT(Lanes(c).releases, {-1, 6, -1, -1, 6, -1, -1});
}

STORY("a kernel fires an event once, when the last constraint on it is known") {
    Rows src{0, 1}, dst{2, 2};
    Reasons form{kFinishStart, kFinishStart};
    Times lag{5, 0};
    Kernel kernel({3, src, dst, form, lag, {}, {}, {}, {}, 0});
    std::vector<EventId> due;
    auto note = [&](EventId event) { due.push_back(event); };
    kernel.fire(end_of(0), 10, note);
    EXPECT(due, {});
    kernel.fire(end_of(1), 12, note);
    EXPECT(due, {start_of(2)});
    EXPECT(kernel[start_of(2)].time, 15);
    EXPECT(kernel[start_of(2)].key, edge_key(0));
    EXPECT(kernel[end_of(2)].pending, 1);  // its own end
    EXPECT(static_cast<int8_t>(reason_of(queue_key(1), end_of(2))), kQueue);
}

STORY("events are nested by thread and time") {
    //  thread 1:  0 [0, 100)  1 [10, 50)  2 [20, 30)  3 [60, 90)   thread 2:  4 [15, 25)
    Nesting n = nest(Rows{1, 1, 1, 1, 2}, Times{0, 10, 20, 60, 15}, Times{100, 50, 30, 90, 25}, 0);
    EXPECT(n.parent, {-1, 0, 1, 0, -1});
    EXPECT(n.astray, {0, 0, 0, 0, 0});
}

STORY("an event that outlives the one around it has gone astray and holds nobody") {
    Nesting n = nest(Rows{1, 1, 1}, Times{0, 10, 40}, Times{30, 50, 45}, 2);
    EXPECT(n.parent, {-1, 0, -1});
    EXPECT(n.astray, {0, 1, 0});
    n = nest(Rows{1, 1}, Times{0, 10}, Times{30, 32}, 2);  // within the slack
    EXPECT(n.astray, {0, 0});
}

STORY("a caller ends as long after the last row inside it as was recorded") {
    // Row 0 holds 1 and 4, row 1 holds 2 and 3; row 5 follows 0 on its thread.
    Rows rows{2, 3, 1, 4}, outer{-1, 0, 1, 1, 0, -1}, none(6, -1), follows{5, 4, -1, -1, -1, -1};
    Times recorded{100, 60, 20, 50, 90, 200}, start{0, 0, 0, 0, 700, 900};
    Times end{1, 1, 500, 300, 800, 950};
    EXPECT(callers_ends({rows, outer, recorded, start, none, 1}, end),
           {810, 500, 500, 300, 800, 950});
    Times late{0, 0, 0, 0, 700, 805};
    EXPECT(callers_ends({rows, outer, recorded, late, follows, 1}, end)[0], 805);
    Times never{std::numeric_limits<int64_t>::max() - 1, 1, 1, 1, 1, 1};
    EXPECT(callers_ends({Rows{1}, outer, never, start, none, 1000}, end)[0],
           std::numeric_limits<int64_t>::max());
}

STORY("events that only touch are not nested") {
    EXPECT(nest(Rows{1, 1}, Times{0, 10}, Times{10, 20}, 0).parent, {-1, -1});
}
