// Ranks at work: host threads, streams, devices and communication, in order of time.
//
// Rows are the nodes of all simulated ranks. They hold each other back by the formulas of
// core/timing/kernel.hpp, as in the scheduler, with two differences. A lag below 0 counts from the
// moment the other event happens, since time does not go back. And the own end of a row is
// simulated: it is the start plus the duration for a row that nothing disturbs, the moment its work
// is done for a row that shares its device, and the end of the transfer for communication.
//
// A communication row with a share holds that part of its device from start to end, while compute
// runs on the rest, and it starts only when there is room. A compute row that came first and whose
// priority is not lower is in its way until its last round of blocks has begun, whatever room there
// is; one of lower priority gives up room as a round ends. Rows that ask for room are served by
// priority, then time, then row.
//
// Everything that happens at one time is handled together. First come all events. Then every pool
// lane picks among its ready rows (highest priority, then longest ready, then lowest row) and
// devices let in whoever has room, over and over until nothing is left; then gates let jobs pass.
// Then devices and links are shared anew. So nothing depends on the order of ranks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/sim/network.hpp"
#include "core/sim/workload.hpp"

namespace chakra::sim {

// Given the ready rows of a pool lane, in the order above, which one goes first: its place among
// them, or -1 for none until another one is ready.
using Pick = std::function<int64_t(int32_t lane, Time now, std::span<const int32_t> ready)>;

struct Outcome {
    std::vector<Time> start, end;    // -1 for what never happened
    std::vector<int32_t> binding;    // the row waited for last, or -1
    std::vector<int8_t> reason;      // why a row started no earlier, or kPeer
    std::vector<int32_t> arrived;    // by instance
    std::vector<Time> began, ended;  // by instance: last arrival, end of the transfer
    std::vector<int64_t> job_runs;   // by plan: how often it ran to its end
    std::vector<Time> job_started;   // by job: when it had passed its gate
    std::vector<Time> job_ended;     // by job; an instance ends with its last
    int32_t beyond = -1;             // a row that happens after the horizon
    int64_t events = 0;
};

// All arguments are taken as checked (core/sim/check.hpp).
Outcome simulate(const Workload& workload, const Plans& plans, Network& network, const Pick& pick);

}  // namespace chakra::sim
