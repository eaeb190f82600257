#include "core/sim/check.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace chakra::sim {

namespace {

[[noreturn]] void fail(const std::string& what) {
    throw std::invalid_argument(what);
}

template <class T>
void has_length(const char* name, const std::vector<T>& values, size_t length, const char* of) {
    if (values.size() == length) return;
    fail(std::string(name) + " has " + std::to_string(values.size()) + " entries; there are " +
         std::to_string(length) + " " + of);
}

// `wanted` describes what the test asks for.
template <class T, class Test>
void all_are(const char* name, const std::vector<T>& values, const std::string& wanted, Test test) {
    auto bad = std::find_if_not(values.begin(), values.end(), test);
    if (bad == values.end()) return;
    fail(std::string(name) + "[" + std::to_string(bad - values.begin()) + "] is " +
         std::to_string(*bad) + "; it must be " + wanted);
}

template <class T>
void lie_between(const char* name, const std::vector<T>& values, int64_t least, int64_t most) {
    all_are(name, values, "from " + std::to_string(least) + " to " + std::to_string(most),
            [=](T v) { return v >= least && v <= most; });
}

template <class T>
void at_least(const char* name, const std::vector<T>& values, T least) {
    all_are(name, values, std::to_string(least) + " or more", [=](T v) { return v >= least; });
}

void not_negative(const char* name, const std::vector<double>& values) {
    all_are(name, values, "a finite number, 0 or more",
            [](double v) { return std::isfinite(v) && v >= 0; });
}

// Offsets into `length` things: one more than there are groups, from 0, ascending, to the end.
void are_offsets(const char* name, const std::vector<int64_t>& offsets, size_t length) {
    bool ascend = !offsets.empty() && offsets.front() == 0 &&
                  std::is_sorted(offsets.begin(), offsets.end()) &&
                  offsets.back() == static_cast<int64_t>(length);
    if (!ascend)
        fail(std::string(name) + " must begin with 0, never descend, and end with " +
             std::to_string(length));
}

constexpr size_t kMostRows = 0x7ffffffe;  // an event, a row and an edge are numbers of 31 bits

void check_edges(const Workload& w) {
    size_t edges = w.src.size();
    if (w.duration.size() > kMostRows || edges > kMostRows)
        fail("there are too many rows or edges");
    has_length("dst", w.dst, edges, "edges");
    has_length("form", w.form, edges, "edges");
    has_length("lag", w.lag, edges, "edges");
    lie_between("src", w.src, 0, w.rows() - 1);
    lie_between("dst", w.dst, 0, w.rows() - 1);
    lie_between("form", w.form, kFinishStart, kFinishFinish);
    lie_between("lag", w.lag, -kHorizon, kHorizon);
}

void check_row_lengths(const Workload& w) {
    size_t rows = w.duration.size();
    has_length("kind", w.kind, rows, "rows");
    has_length("lane", w.lane, rows, "rows");
    has_length("order", w.order, rows, "rows");
    has_length("priority", w.priority, rows, "rows");
    has_length("share", w.share, rows, "rows");
    if (!w.demand.empty()) has_length("demand", w.demand, rows, "rows");
    has_length("waves", w.waves, rows, "rows");
    has_length("launch_of", w.launch_of, rows, "rows");
    has_length("instance", w.instance, rows, "rows");
    if (!w.after.empty()) has_length("after", w.after, rows, "rows");
    if (!w.release.empty()) has_length("release", w.release, rows, "rows");
    has_length("device", w.device, rows, "rows");
}

void check_rows(const Workload& w) {
    check_row_lengths(w);
    lie_between("duration", w.duration, 0, kHorizon);
    lie_between("release", w.release, 0, kHorizon);
    lie_between("after", w.after, -1 - kHorizon, kHorizon);
    lie_between("kind", w.kind, kPlain, kStorage);
    lie_between("lane", w.lane, -1, static_cast<int64_t>(w.lane_kind.size()) - 1);
    lie_between("lane_kind", w.lane_kind, kOrdered, kQueueOnly);
    lie_between("share", w.share, 0, kWhole);
    lie_between("demand", w.demand, 0, kWhole);
    at_least<int64_t>("waves", w.waves, 1);
    lie_between("launch_of", w.launch_of, -1, w.rows() - 1);
    lie_between("instance", w.instance, -1, static_cast<int64_t>(w.needed.size()) - 1);
    lie_between("device", w.device, -1, static_cast<int64_t>(w.comm_slowdown.size()) - 1);
    for (int32_t v = 0; v < w.rows(); ++v) {
        bool communicates = w.kind[v] == kComm;
        if ((communicates || w.kind[v] == kStorage) && w.instance[v] < 0)
            fail("row " + std::to_string(v) + " communicates and has no instance");
        bool placed = w.kind[v] == kCompute || (communicates && w.share[v] > 0);
        if (placed && w.device[v] < 0)
            fail("row " + std::to_string(v) + " needs a device and has none");
    }
}

void check_instances(const Workload& w) {
    has_length("overhead", w.overhead, w.needed.size(), "instances");
    has_length("instance_jobs", w.instance_jobs, w.needed.size() + 1, "instances and an end");
    at_least<int32_t>("needed", w.needed, 0);
    lie_between("overhead", w.overhead, 0, kHorizon);
    are_offsets("instance_jobs", w.instance_jobs, w.job_plan.size());
    at_least<int32_t>("gate_slots", w.gate_slots, 1);
    has_length("job_order", w.job_order, w.job_gate.size(), "gates of jobs");
    lie_between("job_gate", w.job_gate, -1, static_cast<int64_t>(w.gate_slots.size()) - 1);
    has_length("job_weight", w.job_weight, w.job_priority.size(), "classes of jobs");
    if (!w.job_priority.empty())
        has_length("job_priority", w.job_priority, w.job_plan.size(), "jobs");
    lie_between("job_priority", w.job_priority, 0, kClasses - 1);
    lie_between("job_weight", w.job_weight, 1, 0xffff);
    if (!w.job_gate.empty()) has_length("job_gate", w.job_gate, w.job_plan.size(), "jobs");
}

void check_faults(const Workload& w) {
    size_t faults = w.fault_time.size();
    has_length("fault_is_link", w.fault_is_link, faults, "faults");
    has_length("fault_target", w.fault_target, faults, "faults");
    has_length("fault_factor", w.fault_factor, faults, "faults");
    lie_between("fault_time", w.fault_time, 0, kHorizon);
    if (!std::is_sorted(w.fault_time.begin(), w.fault_time.end())) fail("fault_time must ascend");
    lie_between("fault_is_link", w.fault_is_link, 0, 1);
    not_negative("fault_factor", w.fault_factor);
}

// Steps follow earlier steps of their own plan only, so that no plan waits for itself.
void check_order_of_steps(const Plans& p) {
    for (int32_t plan = 0; plan < p.plans(); ++plan)
        for (int64_t s = p.plan_steps[plan]; s < p.plan_steps[plan + 1]; ++s)
            for (int32_t before : p.after_of(s))
                if (before < 0 || before >= s - p.plan_steps[plan])
                    fail("step " + std::to_string(s - p.plan_steps[plan]) + " of plan " +
                         std::to_string(plan) + " comes after step " + std::to_string(before) +
                         ", which is not before it");
}

void check_order_of_delays(const Plans& p) {
    for (size_t s = 0; s < p.repeat.size(); ++s)
        if (!std::is_sorted(p.delay.begin() + p.step_transfers[s],
                            p.delay.begin() + p.step_transfers[s + 1]))
            fail("the delays of step " + std::to_string(s) + " must ascend");
}

}  // namespace

void check(const Topology& t) {
    not_negative("bandwidth", t.bandwidth);
    are_offsets("route_offsets", t.route_offsets, t.route_links.size());
    lie_between("route_links", t.route_links, 0, static_cast<int64_t>(t.links()) - 1);
}

void check(const Plans& p) {
    size_t steps = p.repeat.size(), transfers = p.route.size();
    are_offsets("plan_steps", p.plan_steps, steps);
    at_least<int64_t>("repeat", p.repeat, 1);
    has_length("after_offsets", p.after_offsets, steps + 1, "steps and an end");
    are_offsets("after_offsets", p.after_offsets, p.after.size());
    has_length("step_transfers", p.step_transfers, steps + 1, "steps and an end");
    are_offsets("step_transfers", p.step_transfers, transfers);
    has_length("bytes", p.bytes, transfers, "transfers");
    has_length("delay", p.delay, transfers, "transfers");
    not_negative("bytes", p.bytes);
    lie_between("delay", p.delay, 0, kHorizon);
    check_order_of_steps(p);
    check_order_of_delays(p);
}

void check(const Workload& w) {
    check_edges(w);
    check_rows(w);
    not_negative("comm_slowdown", w.comm_slowdown);
    if (w.queue_depth < 0) fail("queue_depth must be 0 (no limit) or more");
    check_instances(w);
    check_faults(w);
}

void check_together(const Workload& w, const Plans& p, const Topology& t) {
    lie_between("route", p.route, 0, t.routes() - 1);
    lie_between("job_plan", w.job_plan, 0, p.plans() - 1);
    for (size_t f = 0; f < w.fault_time.size(); ++f) {
        size_t targets = w.fault_is_link[f] ? t.links() : w.comm_slowdown.size();
        if (w.fault_target[f] < 0 || static_cast<size_t>(w.fault_target[f]) >= targets)
            fail("fault_target[" + std::to_string(f) + "] is " + std::to_string(w.fault_target[f]) +
                 "; there are " + std::to_string(targets) +
                 (w.fault_is_link[f] ? " links" : " devices"));
    }
}

}  // namespace chakra::sim
