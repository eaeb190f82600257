#include "core/sim/link_history.hpp"

#include <numeric>

#include "core/sim/flows.hpp"

namespace chakra::sim {

std::vector<double> carried(const Plans& plans, const Topology& topology,
                            std::span<const double> payload, const Workload& jobs,
                            std::span<const Time> started, std::vector<Time> borders) {
    Flows network(topology, plans);
    LinkHistory history(topology.links(), std::move(borders));
    network.record(history, payload);
    std::vector<int32_t> order(started.size()), finished;
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int32_t job) { return started[job] < 0; });
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return started[a] < started[b]; });
    size_t next = 0, fault = 0;
    for (;;) {
        Time now = network.next_time();
        if (next < order.size()) now = std::min(now, started[order[next]]);
        if (fault < jobs.fault_time.size()) now = std::min(now, jobs.fault_time[fault]);
        if (now > kHorizon) break;
        for (; fault < jobs.fault_time.size() && jobs.fault_time[fault] <= now; ++fault)
            network.scale_link(jobs.fault_target[fault], jobs.fault_factor[fault], now);
        network.step(now, finished);
        for (; next < order.size() && started[order[next]] <= now; ++next)
            network.start(order[next], jobs.job_plan[order[next]], jobs.rank_of(order[next]), now);
        network.step(now, finished);
        network.settle(now);
        finished.clear();
    }
    return std::move(history).take();
}

}  // namespace chakra::sim
