// Ranks at work: host threads, streams, devices and communication, in order of time.
//
// Rows are the nodes of all simulated ranks. A row starts when its edges and its lane let it, and
// ends when its own work is over and its finish edges are:
//
//     start(v) = max(release, end(previous on an ordered lane), FS: end(u) + lag, SS: start(u) +
//     lag) end(v)   = max(own end, FF: end(u) + lag, start(kernel that must leave the launch queue
//     first))
//
// as in core/schedule. A lag below 0 counts from when the other event happens: time does not go
// back. The own end is the start plus the duration for a row that nothing disturbs, the moment its
// work is done for a row that shares its device, and the end of the transfer for communication.
//
// A communication row with a share holds that part of its device from start to end, compute running
// on the rest, and starts only when there is room. A compute row that came before it and whose
// priority is not lower is in its way until its last round has begun, whatever room there is; one
// of lower priority gives up room as a round ends. Those that ask are served by priority, then
// time, then row.
//
// All that happens at one time is handled together: first every event, then every pool lane picks
// among the rows that are ready (highest priority, then longest ready, then lowest row) and devices
// let in who asks, again until nothing is left; then devices and links are shared anew. Nothing
// depends on the order of ranks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/sim/network.hpp"

namespace chakra::sim {

// An ordered lane runs its rows one at a time in order, a pool lane one at a time as they get
// ready; a queue only limits how far launches run ahead, its order being in the edges.
enum LaneKind : int8_t { kOrdered = 0, kPool = 1, kQueueOnly = 2 };
enum RowKind : int8_t { kPlain = 0, kCompute = 1, kComm = 2 };
enum Reason : int8_t { kNone = 0, kDependency = 1, kResource = 2, kOwn = 3, kQueue = 4, kPeer = 5 };

// Spans have one entry an edge (src .. lag), a row (duration .. device), a lane (lane_kind), a
// device, an instance or a fault. All numbers are taken as checked; -1 stands for none.
struct Workload {
    std::span<const int32_t> src, dst;
    std::span<const int8_t> form;
    std::span<const Time> lag;

    std::span<const Time> duration;
    std::span<const int8_t> kind;
    std::span<const int32_t> lane;
    std::span<const int64_t> order;
    std::span<const int32_t> priority;
    std::span<const int32_t> share;  // of its device, in millionths: compute uses at most,
                                     // communication holds
    std::span<const int64_t> waves;  // rounds a compute row runs in
    std::span<const int32_t> launch_of;
    std::span<const int32_t> instance;
    // From the end of its instance to a member's own; -1 - d: it ends d after its start instead.
    std::span<const Time> after;
    std::span<const Time> release;  // before which a row that nothing else holds does not start
    std::span<const int32_t> device;
    std::span<const int8_t> lane_kind;

    std::span<const double> comm_slowdown;  // by device
    bool fair = false;                      // concurrent compute rows of a device share it
    int64_t queue_depth = 0;

    std::span<const int32_t> needed;         // by instance: rows that must arrive
    std::span<const Time> overhead;          // by instance: from the last arrival to the first step
    std::span<const int64_t> instance_jobs;  // offsets into job_plan
    std::span<const int32_t> job_plan;

    std::span<const Time> fault_time;  // ascending
    std::span<const int8_t> fault_is_link;
    std::span<const int32_t> fault_target;  // link or device
    std::span<const double> fault_factor;

    int32_t rows() const { return static_cast<int32_t>(duration.size()); }
};

// Given the ready rows of a pool lane, in the order above, which one goes first; -1 for none until
// another one is ready.
using Pick = std::function<int64_t(int32_t lane, Time now, std::span<const int32_t> ready)>;

struct Outcome {
    std::vector<Time> start, end;    // -1 for what never happened
    std::vector<int32_t> binding;    // the row waited for last, or -1
    std::vector<int8_t> reason;      // why a row started no earlier, or kPeer
    std::vector<int32_t> arrived;    // by instance
    std::vector<Time> began, ended;  // by instance: last arrival, end of the transfer
    std::vector<int64_t> job_runs;   // by plan: how often it ran to its end
    std::vector<Time> job_ended;     // by job
    int32_t diverged = -1;           // an instance whose jobs did not end together
    int64_t events = 0;
};

Outcome simulate(const Workload& workload, const Plans& plans, Network& network, const Pick& pick);

}  // namespace chakra::sim
