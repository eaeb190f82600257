#include <limits>
#include <stdexcept>

#include "core/sim/check.hpp"
#include "harness.hpp"

using namespace chakra::sim;

namespace {

// Two links, a route over each, a plan of two steps, and three rows that use them all.
Topology topology() {
    return {{1, 2}, {0, 1, 2}, {0, 1}};
}
Plans plans() {
    return {{0, 2}, {1, 3}, {0, 0, 1}, {0}, {0, 1, 3}, {0, 1, 0}, {10, 20, 30}, {0, 5, 7}};
}
Workload workload() {
    Workload w;
    w.src = {0}, w.dst = {1}, w.form = {0}, w.lag = {-5};
    w.duration = {10, 20, 0}, w.kind = {kPlain, kCompute, kComm};
    w.lane = {-1, 0, -1}, w.order = {0, 1, 2}, w.priority = {0, -3, 9}, w.share = {0, kWhole, 500};
    w.waves = {1, 4, 1}, w.launch_of = {-1, 0, -1}, w.instance = {-1, -1, 0};
    w.device = {-1, 0, 0}, w.lane_kind = {kPool}, w.comm_slowdown = {0.5};
    w.needed = {1}, w.overhead = {7}, w.instance_jobs = {0, 2}, w.job_plan = {0, 0};
    w.fault_time = {1, 1}, w.fault_is_link = {0, 1}, w.fault_target = {0, 1};
    w.fault_factor = {0, 0.5};
    return w;
}

void check_all(const Workload& w, const Plans& p, const Topology& t) {
    check(t), check(p), check(w), check_together(w, p, t);
}

// Whether the three are refused for `text` once `damage` has changed one of them.
template <class Damage>
void refused(const char* text, Damage damage) {
    Workload w = workload();
    Plans p = plans();
    Topology t = topology();
    damage(w, p, t);
    REFUSES(std::invalid_argument, text, (check_all(w, p, t), 0));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

#define DAMAGE [](auto& w, auto& p, auto& t)

}  // namespace

STORY("arrays that fit together are accepted") {
    check_all(workload(), plans(), topology());
    check_all(Workload{.instance_jobs = {0}}, Plans{{0}, {}, {0}, {}, {0}, {}, {}, {}},
              Topology{{}, {0}, {}});
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

STORY("an array of another length is named") {
    refused("dst has 0 entries; there are 1 edges", DAMAGE { w.dst.clear(); });
    refused("waves has 4 entries; there are 3 rows", DAMAGE { w.waves.push_back(1); });
    refused("overhead has 2 entries; there are 1 instances", DAMAGE { w.overhead.push_back(0); });
    refused("fault_factor has 1 entries", DAMAGE { w.fault_factor.pop_back(); });
    refused("bytes has 2 entries; there are 3 transfers", DAMAGE { p.bytes.pop_back(); });
    refused("after_offsets has 2 entries", DAMAGE { p.after_offsets.pop_back(); });
}

STORY("a number out of range is named with its place") {
    refused("src[0] is 3; it must be from 0 to 2", DAMAGE { w.src[0] = 3; });
    refused("dst[0] is -1", DAMAGE { w.dst[0] = -1; });
    refused("form[0] is 3; it must be from 0 to 2", DAMAGE { w.form[0] = 3; });
    refused("duration[1] is -1; it must be from 0 to", DAMAGE { w.duration[1] = -1; });
    refused("kind[2] is 9", DAMAGE { w.kind[2] = 9; });
    refused("lane[1] is 1; it must be from -1 to 0", DAMAGE { w.lane[1] = 1; });
    refused("lane_kind[0] is -1", DAMAGE { w.lane_kind[0] = -1; });
    refused("share[1] is 1000001", DAMAGE { w.share[1] = kWhole + 1; });
    refused("waves[1] is 0; it must be 1 or more", DAMAGE { w.waves[1] = 0; });
    refused("launch_of[0] is -2", DAMAGE { w.launch_of[0] = -2; });
    refused("instance[2] is 1", DAMAGE { w.instance[2] = 1; });
    refused("device[1] is 1", DAMAGE { w.device[1] = 1; });
    refused("comm_slowdown[0] is nan", DAMAGE { w.comm_slowdown[0] = kNan; });
    refused("queue_depth", DAMAGE { w.queue_depth = -1; });
    refused("job_plan[1] is 1; it must be from 0 to 0", DAMAGE { w.job_plan[1] = 1; });
    refused("repeat[0] is 0", DAMAGE { p.repeat[0] = 0; });
    refused("route[2] is 2", DAMAGE { p.route[2] = 2; });
    refused("bytes[1] is inf", DAMAGE { p.bytes[1] = std::numeric_limits<double>::infinity(); });
    refused("bandwidth[0] is -1", DAMAGE { t.bandwidth[0] = -1; });
    refused("route_links[1] is 2", DAMAGE { t.route_links[1] = 2; });
    refused("fault_target[1] is 2; there are 2 links", DAMAGE { w.fault_target[1] = 2; });
    refused("fault_target[0] is 1; there are 1 devices", DAMAGE { w.fault_target[0] = 1; });
}

STORY("rows have what their kind needs") {
    refused("row 2 communicates and has no instance", DAMAGE { w.instance[2] = -1; });
    refused("row 1 needs a device and has none", DAMAGE { w.device[1] = -1; });
    refused("row 2 needs a device and has none", DAMAGE { w.device[2] = -1; });
}

STORY("offsets ascend from 0 to the end, and what is sorted must be") {
    refused("instance_jobs must begin with 0", DAMAGE { w.instance_jobs = {1, 2}; });
    refused("instance_jobs must begin with 0", DAMAGE { w.instance_jobs = {0, 1}; });
    refused("plan_steps must begin with 0", DAMAGE { p.plan_steps = {0, 3, 2}; });
    refused("plan_steps must begin with 0", DAMAGE { p.plan_steps.clear(); });
    refused("step_transfers must begin with 0", DAMAGE { p.step_transfers = {0, 4, 3}; });
    refused("route_offsets must begin with 0", DAMAGE { t.route_offsets = {0, 1, 3}; });
    refused("the delays of step 1 must ascend", DAMAGE { p.delay[2] = 1; });
    refused("fault_time must ascend", DAMAGE { w.fault_time[1] = 0; });
    refused("step 1 of plan 0 comes after step 1", DAMAGE { p.after[0] = 1; });
}
