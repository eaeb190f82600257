#include <algorithm>
#include <limits>
#include <stdexcept>

#include "harness.hpp"
#include "sim_case.hpp"

using namespace chakra::sim;
using namespace unit;

namespace {

using Times = std::vector<Time>;
using Rows = std::vector<int32_t>;

struct Edge {
    int32_t src, dst;
    int8_t form = 0;
    Time lag = 0;
};

struct Row {
    Time duration;
    RowKind kind = kPlain;
    int32_t lane = -1;
    int32_t instance = -1;
    int32_t device = 0;
    int32_t share = 0;
    int32_t priority = 0;
    int32_t launch_of = -1;
    int64_t order = 0;
    int64_t waves = 1;
};

Row compute(Time duration, int32_t lane = -1, int32_t share = 1000000) {
    return {.duration = duration, .kind = kCompute, .lane = lane, .share = share};
}
Row comm(int32_t instance, int32_t device = 0, int32_t share = 0) {
    return {.duration = 0, .kind = kComm, .instance = instance, .device = device, .share = share};
}

struct Fault {
    Time time;
    bool link;
    int32_t target;
    double factor;
};

struct Case {
    std::vector<Row> rows;
    std::vector<Edge> edges = {};
    std::vector<int8_t> lane_kind = {};
    std::vector<Rows> instance_plans = {};
    Rows needed = {};
    std::vector<Fault> faults = {};
    int64_t queue_depth = 0;
    bool fair = false;
    double slowdown = 0;
    Time overhead = 0;
    Pick pick = {};
    Fabric fabric{{1}, {{0}}, {{{{{0, 100}}}}}};

    Workload workload() const;
    Outcome run() const;
};

template <class T, class Field>
void fill(std::vector<T>& column, const std::vector<Row>& rows, Field field) {
    for (const Row& r : rows) column.push_back(static_cast<T>(r.*field));
}

Workload Case::workload() const {
    Workload w;
    for (const Edge& e : edges) {
        w.src.push_back(e.src), w.dst.push_back(e.dst);
        w.form.push_back(e.form), w.lag.push_back(e.lag);
    }
    fill(w.duration, rows, &Row::duration), fill(w.kind, rows, &Row::kind);
    fill(w.lane, rows, &Row::lane), fill(w.order, rows, &Row::order);
    fill(w.priority, rows, &Row::priority), fill(w.share, rows, &Row::share);
    fill(w.waves, rows, &Row::waves), fill(w.launch_of, rows, &Row::launch_of);
    fill(w.instance, rows, &Row::instance), fill(w.device, rows, &Row::device);
    w.lane_kind = lane_kind, w.comm_slowdown = {slowdown, slowdown};
    w.fair = fair, w.queue_depth = queue_depth;
    w.needed = needed, w.overhead.assign(needed.size(), overhead), w.instance_jobs = {0};
    for (const Rows& plans : instance_plans) {
        w.job_plan.insert(w.job_plan.end(), plans.begin(), plans.end());
        w.instance_jobs.push_back(std::ssize(w.job_plan));
    }
    for (const Fault& f : faults) {
        w.fault_time.push_back(f.time), w.fault_is_link.push_back(f.link);
        w.fault_target.push_back(f.target), w.fault_factor.push_back(f.factor);
    }
    return w;
}

Outcome Case::run() const {
    Workload w = workload();
    check(w);
    check_together(w, fabric.plans, fabric.topology);
    Flows network(fabric.topology, fabric.plans);
    return simulate(w, fabric.plans, network, pick);
}

}  // namespace

STORY("edges of all three forms hold starts and ends") {
    Outcome o =
        Case{.rows = {{10}, {5}, {20}, {3}}, .edges = {{0, 1, 0, 4}, {0, 2, 1, 3}, {0, 3, 2, 2}}}
            .run();
    EXPECT(o.start, {0, 14, 3, 0});
    EXPECT(o.end, {10, 19, 23, 12});
    EXPECT(o.binding, {-1, 0, 0, -1});
    EXPECT(o.reason, {kNone, kDependency, kDependency, kNone});
}

STORY("an ordered lane runs its rows in order, a pool as they get ready") {
    std::vector<Row> rows{{.duration = 5, .lane = 0, .order = 2},
                          {.duration = 6, .lane = 0, .order = 1},
                          {.duration = 7, .lane = 1},
                          {.duration = 8, .lane = 1, .priority = 1}};
    Outcome o = Case{.rows = rows, .lane_kind = {kOrdered, kPool}}.run();
    EXPECT(o.start, {6, 0, 8, 0});
    EXPECT(o.binding, {1, -1, 3, -1});
    EXPECT(o.reason, {kResource, kNone, kResource, kNone});
}

STORY("a policy may choose another row of a pool, or wait for one") {
    std::vector<Row> rows(3, {.duration = 5, .lane = 0});
    Case last{.rows = rows, .lane_kind = {kPool}};
    last.pick = [](int32_t, Time, std::span<const int32_t> ready) {
        return static_cast<int64_t>(ready.size()) - 1;
    };
    EXPECT(last.run().start, {10, 5, 0});
    Case never{.rows = rows, .lane_kind = {kPool}};
    never.pick = [](int32_t, Time, std::span<const int32_t>) { return int64_t{-1}; };
    EXPECT(never.run().start, {-1, -1, -1});
}

STORY("a full launch queue keeps the launcher from ending") {
    std::vector<Row> rows{{2}, {2}, {100}, {100}};
    for (int i = 0; i < 4; ++i) rows[i].lane = i / 2, rows[i].order = i;
    rows[2].launch_of = 0, rows[3].launch_of = 1;
    Case c{.rows = rows, .edges = {{0, 2, 1, 1}, {1, 3, 1, 1}}, .lane_kind = {kOrdered, kOrdered}};
    EXPECT(c.run().end, {2, 4, 101, 201});
    c.queue_depth = 1;
    c.edges[0].lag = 30;  // the first kernel starts late, and so the second launch ends late
    EXPECT(c.run().end, {2, 30, 130, 230});
}

STORY("rows that wait for each other never happen") {
    Outcome o = Case{.rows = {{1}, {1}, {1}}, .edges = {{1, 2}, {2, 1}}}.run();
    EXPECT(o.start, {0, -1, -1});
    EXPECT(o.end, {1, -1, -1});
}

STORY("compute rows that share a device fairly take longer together") {
    Case c{.rows = {compute(100), compute(100)}};
    EXPECT(c.run().end, {100, 100});  // not fair: each runs as if alone
    c.fair = true;
    EXPECT(c.run().end, {200, 200});
    c.rows = {compute(100, -1, 500000)};  // half a device takes twice as long
    EXPECT(c.run().end, {200});
}

STORY("a collective begins with its last member and binds the others") {
    Case c{.rows = {{30}, comm(0), comm(0, 1)}, .edges = {{0, 2}}};
    c.instance_plans = {{0}}, c.needed = {2}, c.overhead = 5;
    Outcome o = c.run();
    EXPECT(o.start, {0, 0, 30});
    EXPECT(o.end, {30, 135, 135});
    EXPECT(o.began, {30});
    EXPECT(o.ended, {135});
    EXPECT(o.arrived, {2});
    EXPECT(o.job_runs, {1});
    EXPECT(o.reason[1], kPeer);
    EXPECT(o.binding[1], 2);
}

STORY("a collective that somebody never joins does not end") {
    Case c{.rows = {comm(0)}, .instance_plans = {{0}}, .needed = {2}};
    Outcome o = c.run();
    EXPECT(o.start, {0});
    EXPECT(o.end, {-1});
    EXPECT(o.arrived, {1});
}

STORY("an instance ends with its last job, and the end of each job is told") {
    Case c{.rows = {comm(0)}, .instance_plans = {{0, 1}}, .needed = {1}};
    c.fabric = Fabric({1, 1}, {{0}, {1}}, {{{{{0, 100}}}}, {{{{1, 50}}}}});
    Outcome o = c.run();
    EXPECT(o.job_ended, {100, 50});
    EXPECT(o.end, {100});
}

STORY("communication slows the computation beside it") {
    Case c{.rows = {comm(0), compute(200)}, .instance_plans = {{0}}, .needed = {1}};
    c.slowdown = 1;  // half speed for the 100 of the transfer
    EXPECT(c.run().end, {100, 250});
}

STORY("communication that waits for a peer slows nothing until its bytes move") {
    Case c{.rows = {comm(0), compute(200), {100}, comm(0, 1)}, .edges = {{2, 3}}};
    c.instance_plans = {{0}}, c.needed = {2};
    c.slowdown = 1;  // half speed for the 100 of the transfer, which begins at 100
    EXPECT(c.run().end, {200, 250, 100, 200});
}

STORY("communication with a share takes that part of the device from computation") {
    Case c{.rows = {comm(0, 0, 250000), compute(200)}, .edges = {}};
    c.instance_plans = {{0}}, c.needed = {1};
    Outcome o = c.run();
    EXPECT(o.start[0], 0);
    EXPECT(o.end, {100, 225});  // 75 of 200 by 100, the rest at full speed
}

STORY("communication waits for a kernel that fills the device, unless the kernel yields") {
    Case c{.rows = {compute(200), comm(0, 0, 250000), {1}}, .edges = {{2, 1}}};
    c.rows[0].waves = 4;
    c.instance_plans = {{0}}, c.needed = {1};
    Outcome o = c.run();
    EXPECT(o.start[1], 200);
    EXPECT(o.binding[1], 0);
    c.rows[1].priority = 1;  // the kernel yields as a round ends
    EXPECT(c.run().start[1], 50);
}

STORY("faults change devices and links from their time on") {
    Case c{.rows = {compute(100), comm(0)}, .instance_plans = {{0}}, .needed = {1}};
    c.faults = {{50, false, 0, 0.5}, {80, true, 0, 0.25}};
    EXPECT(c.run().end, {150, 160});
    c.faults = {{1000, true, 0, 0}};  // after the last event: nothing changes
    EXPECT(c.run().end, {100, 100});
}

STORY("a row that ends beyond the horizon is named") {
    EXPECT(Case({.rows = {{kHorizon - 10}, {10}}, .edges = {{0, 1}}}).run().beyond, -1);
    EXPECT(Case({.rows = {{kHorizon - 5}, {10}}, .edges = {{0, 1}}}).run().beyond, 1);
}
