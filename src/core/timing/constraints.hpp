// What holds rows back: edges between their starts and ends, lanes they share, and launch queues.
// The scheduler and the simulator's engine both read a workload through this.
#pragma once

#include <cstdint>
#include <span>

namespace chakra::timing {

// Which event of the source an edge leaves from, and which event of the target it holds back.
enum Form : int8_t { kFinishStart = 0, kStartStart = 1, kFinishFinish = 2 };

// An ordered lane runs its rows one at a time in the given order. A pool lane runs them one at a
// time as they become ready. A queue-only lane imposes no order, since the edges do, but launches
// still run ahead of it only as far as the launch queue allows.
enum LaneKind : int8_t { kOrdered = 0, kPool = 1, kQueueOnly = 2 };

// Why an event happened no earlier. Only the simulator knows kPeer: the last member of a
// collective to arrive.
enum Reason : int8_t { kNone = 0, kDependency = 1, kResource = 2, kOwn = 3, kQueue = 4, kPeer = 5 };

// Spans have one entry per edge (src to lag), per row (lane to launch_of) or per lane (lane_kind).
// Empty spans mean: no lanes, order by row, no launches, ordered lanes only. Rows and lanes are
// taken as checked: rows lie in [0, rows), lanes are -1 for none. With a queue depth of D > 0, the
// launcher of a kernel ends only once the kernel D launches earlier on the same lane has started.
struct Constraints {
    int32_t rows = 0;
    std::span<const int32_t> src, dst;
    std::span<const int8_t> form;
    std::span<const int64_t> lag;
    std::span<const int32_t> lane;
    std::span<const int64_t> order;
    std::span<const int32_t> launch_of;
    std::span<const int8_t> lane_kind;
    int64_t queue_depth = 0;
};

}  // namespace chakra::timing
