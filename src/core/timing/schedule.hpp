// When each row starts and ends if every row takes its given duration: the longest path over two
// events per row, by the formulas of core/timing/kernel.hpp with
//
//     own end(v) = start(v) + duration(v)
//
// The latest constraint binds. On equal times the order is: own duration, then the dependency with
// the lowest edge, then the resource or the launch queue (lowest kernel), then the release.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/timing/constraints.hpp"

namespace chakra::schedule {

using namespace timing;  // forms of edges and reasons for waiting

// Every span has one entry per edge (src to lag) or per row (the others). Those after `durations`
// may be empty: no resources, order by row, release at 0, no launches. All numbers are taken as
// checked; a resource is -1 for none.
struct Problem {
    std::span<const int32_t> src, dst;
    std::span<const int8_t> form;
    std::span<const int64_t> lag;
    std::span<const int64_t> durations;
    std::span<const int32_t> resource;
    std::span<const int64_t> order;
    std::span<const int64_t> release;
    std::span<const int32_t> launch_of;
    int64_t queue_depth = 0;

    int32_t rows() const { return static_cast<int32_t>(durations.size()); }
    Constraints constraints() const {
        return {rows(), src, dst, form, lag, resource, order, launch_of, {}, queue_depth};
    }
};

// One event (start or end) of every row: its time, and the constraint that bound it.
struct Events {
    std::vector<int64_t> time;
    std::vector<int32_t> binding;  // the row waited for, or -1
    std::vector<int32_t> edge;     // the edge of a dependency, or -1
    std::vector<int8_t> reason;
};

// A circular wait: event[i] (2 * row, + 1 for the end) cannot happen before event[i + 1], and the
// last one not before the first; reason and edge say why.
struct Circle {
    std::vector<int64_t> event;
    std::vector<int8_t> reason;
    std::vector<int32_t> edge;
};

// Either a schedule, or a circle that is not empty and events that mean nothing.
struct Result {
    Events start, end;
    Circle circle;
};

// Throws std::overflow_error when a time does not fit 64 bits.
Result solve(const Problem& problem);

}  // namespace chakra::schedule
