// The simulator's engine: inputs that own their arrays and are checked when they are made.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>

#include "core/bindings/bind.hpp"
#include "core/sim/analytical.hpp"
#include "core/sim/check.hpp"
#include "core/sim/engine.hpp"
#include "core/sim/fairness.hpp"
#include "core/sim/flows.hpp"
#include "core/sim/link_history.hpp"

namespace chakra::bind {

namespace {

template <class T>
T checked(T input) {
    sim::check(input);
    return input;
}

void make_topology(sim::Topology* self, In<double> bandwidth, In<int64_t> route_offsets,
                   In<int32_t> route_links) {
    new (self)
        sim::Topology(checked(sim::Topology{own(bandwidth), own(route_offsets), own(route_links)}));
}

void make_plans(sim::Plans* self, In<int64_t> plan_steps, In<int64_t> repeat,
                In<int64_t> after_offsets, In<int32_t> after, In<int64_t> step_transfers,
                In<int32_t> route, In<double> bytes, In<int64_t> delay) {
    new (self)
        sim::Plans(checked(sim::Plans{own(plan_steps), own(repeat), own(after_offsets), own(after),
                                      own(step_transfers), own(route), own(bytes), own(delay)}));
}

void make_workload(sim::Workload* self, In<int32_t> src, In<int32_t> dst, In<int8_t> form,
                   In<int64_t> lag, In<int64_t> duration, In<int8_t> kind, In<int32_t> lane,
                   In<int64_t> order, In<int32_t> priority, In<int32_t> share, In<int64_t> waves,
                   In<int32_t> demand, In<int32_t> launch_of, In<int32_t> instance,
                   In<int64_t> after, In<int64_t> release, In<int32_t> device, In<int8_t> lane_kind,
                   In<double> comm_slowdown, bool fair, int64_t queue_depth, In<int32_t> needed,
                   In<int64_t> overhead, In<int64_t> instance_jobs, In<int32_t> job_plan,
                   In<int32_t> job_gate, In<int64_t> job_order, In<int32_t> gate_slots,
                   In<int32_t> job_priority, In<int32_t> job_weight, In<int64_t> fault_time,
                   In<int8_t> fault_is_link, In<int32_t> fault_target, In<double> fault_factor) {
    sim::Workload w;
    w.src = own(src), w.dst = own(dst), w.form = own(form), w.lag = own(lag);
    w.duration = own(duration), w.kind = own(kind), w.lane = own(lane), w.order = own(order);
    w.priority = own(priority), w.share = own(share), w.waves = own(waves);
    w.demand = own(demand);
    w.launch_of = own(launch_of), w.instance = own(instance), w.device = own(device);
    w.after = own(after), w.release = own(release);
    w.lane_kind = own(lane_kind), w.comm_slowdown = own(comm_slowdown);
    w.fair = fair, w.queue_depth = queue_depth;
    w.needed = own(needed), w.overhead = own(overhead);
    w.instance_jobs = own(instance_jobs), w.job_plan = own(job_plan);
    w.job_gate = own(job_gate), w.job_order = own(job_order), w.gate_slots = own(gate_slots);
    w.job_priority = own(job_priority), w.job_weight = own(job_weight);
    w.fault_time = own(fault_time), w.fault_is_link = own(fault_is_link);
    w.fault_target = own(fault_target), w.fault_factor = own(fault_factor);
    new (self) sim::Workload(checked(std::move(w)));
}

using PyPick = std::function<int64_t(int32_t, int64_t, std::vector<int32_t>)>;

// Python is asked with the lock held; the rest of the simulation runs without it.
sim::Pick pick_of(const std::optional<PyPick>& ask) {
    if (!ask) return {};
    return [ask](int32_t lane, sim::Time now, std::span<const int32_t> ready) {
        nb::gil_scoped_acquire lock;
        int64_t chosen = (*ask)(lane, now, {ready.begin(), ready.end()});
        if (chosen < -1 || chosen >= static_cast<int64_t>(ready.size()))
            throw std::out_of_range("a dispatch policy chose a row that is not in the list");
        return chosen;
    };
}

// What was on its way when the simulation stopped, column by column.
void add_unfinished(nb::dict& result, const std::vector<sim::Unfinished>& transfers) {
    std::vector<int64_t> job, transfer, rounds;
    std::vector<double> remaining;
    for (const sim::Unfinished& t : transfers) {
        job.push_back(t.job);
        transfer.push_back(t.transfer);
        rounds.push_back(t.rounds);
        remaining.push_back(t.remaining);
    }
    result["unfinished_job"] = to_numpy(std::move(job));
    result["unfinished_transfer"] = to_numpy(std::move(transfer));
    result["unfinished_rounds"] = to_numpy(std::move(rounds));
    result["unfinished_bytes"] = to_numpy(std::move(remaining));
}

nb::dict to_python(sim::Outcome&& out, sim::LinkMeter&& meter) {
    nb::dict result;
    result["start"] = to_numpy(std::move(out.start));
    result["end"] = to_numpy(std::move(out.end));
    result["binding"] = to_numpy(std::move(out.binding));
    result["reason"] = to_numpy(std::move(out.reason));
    result["arrived"] = to_numpy(std::move(out.arrived));
    result["began"] = to_numpy(std::move(out.began));
    result["ended"] = to_numpy(std::move(out.ended));
    result["job_runs"] = to_numpy(std::move(out.job_runs));
    result["job_started"] = to_numpy(std::move(out.job_started));
    result["job_ended"] = to_numpy(std::move(out.job_ended));
    result["full_rate"] = to_numpy(std::move(meter.full_rate));
    result["full_since"] = to_numpy(std::move(meter.full_since));
    result["beyond"] = out.beyond;
    result["events"] = out.events;
    return result;
}

nb::dict run(const sim::Workload& workload, const sim::Plans& plans, const sim::Topology& topology,
             bool flow, std::optional<PyPick> ask) {
    sim::Pick pick = pick_of(ask);
    sim::Outcome out;
    sim::LinkMeter meter(topology.links());
    std::vector<sim::Unfinished> unfinished;
    {
        nb::gil_scoped_release unlocked;
        sim::check_together(workload, plans, topology);
        std::unique_ptr<sim::Network> network;
        if (flow)
            network = std::make_unique<sim::Flows>(topology, plans);
        else
            network = std::make_unique<sim::Analytical>(topology, plans);
        out = sim::simulate(workload, plans, *network, pick);
        meter = network->meter();
        unfinished = network->unfinished();
    }
    nb::dict result = to_python(std::move(out), std::move(meter));
    add_unfinished(result, unfinished);
    return result;
}

Out<double> fair_rates(In<double> capacity, In<int64_t> offsets, In<int32_t> links,
                       In<int32_t> priority, In<int32_t> weight) {
    sim::Topology topology = checked(sim::Topology{own(capacity), own(offsets), own(links)});
    sim::Workload ranks;
    ranks.job_priority = own(priority), ranks.job_weight = own(weight);
    ranks.job_plan.resize(ranks.job_priority.empty() ? 0 : topology.routes());
    ranks.instance_jobs = {0, static_cast<int64_t>(ranks.job_plan.size())};
    ranks.needed = {0}, ranks.overhead = {0};
    sim::check(ranks);
    sim::Fairness fairness(topology);
    for (int32_t f = 0; f < topology.routes(); ++f) fairness.add(f, 0, ranks.rank_of(f));
    fairness.settle();
    std::vector<double> rates;
    for (int32_t f = 0; f < topology.routes(); ++f) rates.push_back(fairness.rate(f));
    return to_numpy(std::move(rates));
}

// The bytes over each link, row by row, in each part between two borders.
Out<double> link_history(const sim::Plans& plans, const sim::Topology& topology, In<double> payload,
                         In<int32_t> job_plan, In<int64_t> job_started, In<int32_t> job_priority,
                         In<int32_t> job_weight, In<int64_t> fault_time, In<int32_t> fault_target,
                         In<double> fault_factor, In<int64_t> borders) {
    sim::Workload jobs;
    jobs.job_plan = own(job_plan);
    jobs.job_priority = own(job_priority), jobs.job_weight = own(job_weight);
    jobs.instance_jobs = {0, static_cast<int64_t>(jobs.job_plan.size())};
    jobs.needed = {0}, jobs.overhead = {0};
    jobs.fault_time = own(fault_time), jobs.fault_target = own(fault_target);
    jobs.fault_factor = own(fault_factor);
    jobs.fault_is_link.assign(jobs.fault_time.size(), 1);
    sim::check(jobs);
    sim::check_together(jobs, plans, topology);
    std::vector<double> counted = own(payload);
    std::vector<int64_t> started = own(job_started), parts = own(borders);
    if (counted.size() != plans.bytes.size() || started.size() != jobs.job_plan.size())
        throw std::invalid_argument("payload has one entry per transfer, job_started one per job");
    if (parts.size() < 2 || !std::is_sorted(parts.begin(), parts.end()))
        throw std::invalid_argument("borders must be two or more and never descend");
    std::vector<double> bytes;
    {
        nb::gil_scoped_release unlocked;
        bytes = sim::carried(plans, topology, counted, jobs, started, std::move(parts));
    }
    return to_numpy(std::move(bytes));
}

}  // namespace

void sim(nb::module_& m) {
    using nb::literals::operator""_a;
    nb::class_<sim::Topology>(m, "SimTopology")
        .def("__init__", &make_topology, nb::kw_only(), "bandwidth"_a, "route_offsets"_a,
             "route_links"_a);
    nb::class_<sim::Plans>(m, "SimPlans")
        .def("__init__", &make_plans, nb::kw_only(), "plan_steps"_a, "repeat"_a, "after_offsets"_a,
             "after"_a, "step_transfers"_a, "route"_a, "bytes"_a, "delay"_a);
    nb::class_<sim::Workload>(m, "SimWorkload")
        .def("__init__", &make_workload, nb::kw_only(), "src"_a, "dst"_a, "form"_a, "lag"_a,
             "duration"_a, "kind"_a, "lane"_a, "order"_a, "priority"_a, "share"_a, "waves"_a,
             "demand"_a, "launch_of"_a, "instance"_a, "after"_a, "release"_a, "device"_a,
             "lane_kind"_a, "comm_slowdown"_a, "fair"_a, "queue_depth"_a, "needed"_a, "overhead"_a,
             "instance_jobs"_a, "job_plan"_a, "job_gate"_a, "job_order"_a, "gate_slots"_a,
             "job_priority"_a, "job_weight"_a, "fault_time"_a, "fault_is_link"_a, "fault_target"_a,
             "fault_factor"_a)
        .def_prop_ro("rows", &sim::Workload::rows);
    m.attr("SIM_HORIZON_PS") = sim::kHorizon;
    m.def("sim_run", &run, "workload"_a, "plans"_a, "topology"_a, "flow"_a, "pick"_a.none());
    m.def("sim_link_history", &link_history, "plans"_a, "topology"_a, nb::kw_only(), "payload"_a,
          "job_plan"_a, "job_started"_a, "job_priority"_a, "job_weight"_a, "fault_time"_a,
          "fault_target"_a, "fault_factor"_a, "borders"_a);
    m.def("sim_fair_rates", &fair_rates, "capacity"_a, "offsets"_a, "links"_a, "priority"_a,
          "weight"_a);
}

}  // namespace chakra::bind
