// A small machine, its plans and a workload, written down by hand for the simulator's stories.
#pragma once

#include <iterator>
#include <vector>

#include "core/sim/analytical.hpp"
#include "core/sim/check.hpp"
#include "core/sim/engine.hpp"
#include "core/sim/flows.hpp"

namespace unit {

using chakra::sim::Time;

struct Transfer {
    int32_t route;
    double bytes;
    Time delay = 0;
};

// One step of a plan: its transfers, how often it runs, and which earlier steps it follows.
struct Step {
    std::vector<Transfer> transfers;
    int64_t repeat = 1;
    std::vector<int32_t> after = {};
};

// Links with a bandwidth in bytes per picosecond, routes over them, and plans.
struct Fabric {
    chakra::sim::Topology topology;
    chakra::sim::Plans plans;

    Fabric(std::vector<double> links, const std::vector<std::vector<int32_t>>& routes,
           const std::vector<std::vector<Step>>& all) {
        topology = {std::move(links), {0}, {}};
        plans.plan_steps = plans.after_offsets = plans.step_transfers = {0};
        for (const auto& route : routes) {
            append(topology.route_links, route);
            topology.route_offsets.push_back(ssize(topology.route_links));
        }
        for (const auto& plan : all) {
            for (const Step& step : plan) add(step);
            plans.plan_steps.push_back(ssize(plans.repeat));
        }
        chakra::sim::check(topology);
        chakra::sim::check(plans);
    }

   private:
    static void append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
        to.insert(to.end(), from.begin(), from.end());
    }
    void add(const Step& step) {
        for (const Transfer& t : step.transfers) {
            plans.route.push_back(t.route);
            plans.bytes.push_back(t.bytes);
            plans.delay.push_back(t.delay);
        }
        plans.step_transfers.push_back(ssize(plans.route));
        plans.repeat.push_back(step.repeat);
        append(plans.after, step.after);
        plans.after_offsets.push_back(ssize(plans.after));
    }
};

}  // namespace unit
