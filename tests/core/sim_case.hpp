// A small machine, its plans and a workload, written down by hand for the simulator's stories.
#pragma once

#include <memory>
#include <vector>

#include "core/sim/analytical.hpp"
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
    std::vector<double> bandwidth;
    std::vector<std::vector<int32_t>> routes;
    std::vector<std::vector<Step>> plans;

    std::vector<int64_t> route_offsets{0}, plan_steps{0}, repeat, after_offsets{0},
        step_transfers{0};
    std::vector<int32_t> route_links, after, route;
    std::vector<double> bytes;
    std::vector<Time> delay;

    chakra::sim::Topology topology() const { return {bandwidth, route_offsets, route_links}; }
    chakra::sim::Plans all_plans() const {
        return {plan_steps, repeat, after_offsets, after, step_transfers, route, bytes, delay};
    }

    Fabric(std::vector<double> links, std::vector<std::vector<int32_t>> ways,
           std::vector<std::vector<Step>> all)
        : bandwidth(std::move(links)), routes(std::move(ways)), plans(std::move(all)) {
        for (const auto& way : routes) {
            route_links.insert(route_links.end(), way.begin(), way.end());
            route_offsets.push_back(static_cast<int64_t>(route_links.size()));
        }
        for (const auto& plan : plans) {
            for (const Step& step : plan) add(step);
            plan_steps.push_back(static_cast<int64_t>(repeat.size()));
        }
    }

   private:
    void add(const Step& step) {
        for (const Transfer& t : step.transfers)
            route.push_back(t.route), bytes.push_back(t.bytes), delay.push_back(t.delay);
        step_transfers.push_back(static_cast<int64_t>(route.size()));
        repeat.push_back(step.repeat);
        after.insert(after.end(), step.after.begin(), step.after.end());
        after_offsets.push_back(static_cast<int64_t>(after.size()));
    }
};

}  // namespace unit
