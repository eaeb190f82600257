// What the engine runs: the rows of all simulated ranks, what holds them back, and what disturbs
// them. Plain arrays; core/sim/check.hpp says whether they fit together.
#pragma once

#include <vector>

#include "core/sim/plans.hpp"
#include "core/timing/constraints.hpp"

namespace chakra::sim {

using namespace timing;  // kinds of lanes and reasons for waiting

// A plain row takes its duration. A compute row runs on its device and may share it. A
// communication row arrives at its instance (a collective or a message) and ends with it. So does a
// storage row, which takes nothing from its device.
enum RowKind : int8_t { kPlain = 0, kCompute = 1, kComm = 2, kStorage = 3 };

constexpr int32_t kWhole = 1000000;  // a device, in shares

// Arrays have one entry per edge (src to lag), per row (duration to device), per lane (lane_kind),
// per device (comm_slowdown), per instance or per fault. -1 stands for none.
struct Workload {
    std::vector<int32_t> src, dst;
    std::vector<int8_t> form;
    std::vector<Time> lag;

    std::vector<Time> duration;
    std::vector<int8_t> kind;
    std::vector<int32_t> lane;
    std::vector<int64_t> order;
    std::vector<int32_t> priority;
    std::vector<int32_t> share;  // of the device: the most compute uses, what communication holds
    std::vector<int64_t> waves;  // rounds of blocks that a compute row runs in
    // Of the device's memory bandwidth: what a compute row draws at full speed; none at all where
    // rows do not share it.
    std::vector<int32_t> demand;
    std::vector<int32_t> launch_of;
    std::vector<int32_t> instance;
    // From the end of its instance to a member's own end; -1 - d: it ends d after its start
    // instead. None at all where every member ends with its instance.
    std::vector<Time> after;
    std::vector<Time> release;  // the earliest start of rows that nothing holds; none at all: 0
    std::vector<int32_t> device;
    std::vector<int8_t> lane_kind;

    std::vector<double> comm_slowdown;
    bool fair = false;  // concurrent compute rows of a device share it
    int64_t queue_depth = 0;

    std::vector<int32_t> needed;         // rows that must arrive
    std::vector<Time> overhead;          // from the last arrival to the first step
    std::vector<int64_t> instance_jobs;  // offsets into job_plan
    std::vector<int32_t> job_plan;
    // By job: the gate it passes, or -1, and its order there; none at all where there are no gates.
    std::vector<int32_t> job_gate;
    std::vector<int64_t> job_order;
    std::vector<int32_t> gate_slots;  // jobs that a gate has in flight at most
    // By job: its class on links and its weight there; none at all where all jobs are alike.
    std::vector<int32_t> job_priority, job_weight;

    std::vector<Time> fault_time;  // ascending
    std::vector<int8_t> fault_is_link;
    std::vector<int32_t> fault_target;  // link or device
    std::vector<double> fault_factor;   // of its full bandwidth or speed, from then on

    Time after_of(int32_t v) const { return after.empty() ? 0 : after[v]; }
    Rank rank_of(int32_t job) const {
        if (job_priority.empty()) return {};
        return {static_cast<uint8_t>(job_priority[job]), static_cast<uint16_t>(job_weight[job])};
    }
    int32_t gate_of(int32_t job) const { return job_gate.empty() ? -1 : job_gate[job]; }
    Time release_of(int32_t v) const { return release.empty() ? 0 : release[v]; }
    int32_t rows() const { return static_cast<int32_t>(duration.size()); }
    Constraints constraints() const {
        return {rows(), src, dst, form, lag, lane, order, launch_of, lane_kind, queue_depth};
    }
};

}  // namespace chakra::sim
