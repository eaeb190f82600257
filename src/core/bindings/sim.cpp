// chakrakit.core: the simulator. The Python side (simulator/core.py) checks every array first.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <stdexcept>

#include "core/bindings/bind.hpp"
#include "core/sim/analytical.hpp"
#include "core/sim/engine.hpp"
#include "core/sim/fairness.hpp"
#include "core/sim/flows.hpp"

namespace chakra::bind {

namespace {

template <class T>
std::span<const T> view(const nb::dict& d, const char* key) {
    auto array = nb::cast<In<T>>(d[key]);
    return {array.data(), array.size()};
}

sim::Topology topology_of(const nb::dict& d) {
    return {view<double>(d, "bandwidth"), view<int64_t>(d, "route_offsets"),
            view<int32_t>(d, "route_links")};
}

sim::Plans plans_of(const nb::dict& d) {
    return {view<int64_t>(d, "plan_steps"),     view<int64_t>(d, "repeat"),
            view<int64_t>(d, "after_offsets"),  view<int32_t>(d, "after"),
            view<int64_t>(d, "step_transfers"), view<int32_t>(d, "route"),
            view<double>(d, "bytes"),           view<int64_t>(d, "delay")};
}

sim::Workload workload_of(const nb::dict& d) {
    sim::Workload w;
    w.src = view<int32_t>(d, "src");
    w.dst = view<int32_t>(d, "dst");
    w.form = view<int8_t>(d, "form");
    w.lag = view<int64_t>(d, "lag");
    w.duration = view<int64_t>(d, "duration");
    w.kind = view<int8_t>(d, "kind");
    w.lane = view<int32_t>(d, "lane");
    w.order = view<int64_t>(d, "order");
    w.priority = view<int32_t>(d, "priority");
    w.share = view<int32_t>(d, "share");
    w.waves = view<int64_t>(d, "waves");
    w.launch_of = view<int32_t>(d, "launch_of");
    w.instance = view<int32_t>(d, "instance");
    w.device = view<int32_t>(d, "device");
    w.lane_kind = view<int8_t>(d, "lane_kind");
    w.comm_slowdown = view<double>(d, "comm_slowdown");
    w.fair = nb::cast<bool>(d["fair"]);
    w.queue_depth = nb::cast<int64_t>(d["queue_depth"]);
    w.needed = view<int32_t>(d, "needed");
    w.overhead = view<int64_t>(d, "overhead");
    w.instance_jobs = view<int64_t>(d, "instance_jobs");
    w.job_plan = view<int32_t>(d, "job_plan");
    w.fault_time = view<int64_t>(d, "fault_time");
    w.fault_is_link = view<int8_t>(d, "fault_is_link");
    w.fault_target = view<int32_t>(d, "fault_target");
    w.fault_factor = view<double>(d, "fault_factor");
    return w;
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

nb::dict simulate(nb::dict workload, nb::dict plan_arrays, nb::dict links, bool flow,
                  std::optional<PyPick> ask) {
    sim::Workload w = workload_of(workload);
    sim::Plans plans = plans_of(plan_arrays);
    sim::Topology topology = topology_of(links);
    sim::Pick pick = pick_of(ask);
    sim::Outcome out;
    sim::LinkMeter meter{topology.links()};
    {
        nb::gil_scoped_release unlocked;
        std::unique_ptr<sim::Network> network;
        if (flow)
            network = std::make_unique<sim::Flows>(topology, plans);
        else
            network = std::make_unique<sim::Analytical>(topology, plans);
        out = sim::simulate(w, plans, *network, pick);
        meter = network->meter();
    }
    nb::dict result;
    result["start"] = to_numpy(std::move(out.start));
    result["end"] = to_numpy(std::move(out.end));
    result["binding"] = to_numpy(std::move(out.binding));
    result["reason"] = to_numpy(std::move(out.reason));
    result["arrived"] = to_numpy(std::move(out.arrived));
    result["began"] = to_numpy(std::move(out.began));
    result["ended"] = to_numpy(std::move(out.ended));
    result["job_runs"] = to_numpy(std::move(out.job_runs));
    result["job_ended"] = to_numpy(std::move(out.job_ended));
    result["full_rate"] = to_numpy(std::move(meter.full_rate));
    result["full_since"] = to_numpy(std::move(meter.full_since));
    result["diverged"] = out.diverged;
    result["events"] = out.events;
    return result;
}

Out<double> fair_rates(In<double> capacity, In<int64_t> offsets, In<int32_t> links) {
    sim::Sharing sharing;
    sharing.capacity.assign(capacity.data(), capacity.data() + capacity.size());
    sharing.offsets.assign(offsets.data(), offsets.data() + offsets.size());
    sharing.links.assign(links.data(), links.data() + links.size());
    sharing.solve();
    return to_numpy(std::move(sharing.rate));
}

}  // namespace

void sim(nb::module_& m) {
    m.def("sim_run", &simulate, nb::arg("workload"), nb::arg("plans"), nb::arg("links"),
          nb::arg("flow"), nb::arg("pick").none());
    m.def("sim_fair_rates", &fair_rates);
}

}  // namespace chakra::bind
