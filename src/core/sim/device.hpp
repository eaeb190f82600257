// A device: what runs on it, what communication holds of it, and which row may start next.
//
// Kernels run in rounds of blocks. The kernel that came first starts all of its blocks before
// another of the same priority starts any; a kernel of lower priority gives up room as its blocks
// end.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "core/sim/engine.hpp"

namespace chakra::sim {

// A compute row in progress.
struct Work {
    int32_t row;
    double remaining, rate;
    Time since;  // the time at which these held
    Time began;
    uint32_t version;  // of the rate; the end that an older one promised does not come
};

// A communication row that waits for room on its device.
struct Asking {
    int32_t row;
    Time since;
    int32_t behind;  // the row that was in its way last, or -1
};

struct Device {
    std::vector<Work> running;
    std::vector<int32_t> holders;  // communication rows that hold a share
    std::vector<Asking> asking;    // in the order in which they will be served
    int32_t communicating = 0;
    double factor = 1;
    Time round_end = -1;    // when a round last ended whose room goes to a row of higher priority
    bool gives_up = false;  // whether the round that is awaited is such a one
    uint32_t version = 0;
    bool dirty = false, asked = false;  // asked: already listed to be looked at
};

// The rules by which rows get room on a device. Changes nothing but the queue of those that ask.
class Room {
   public:
    explicit Room(const Workload& w) : w_(w) {}

    bool needed(int32_t row) const { return w_.kind[row] == kComm && w_.share[row] > 0; }

    // The share that communication leaves to compute.
    int32_t left(const Device& device) const {
        int32_t left = kWhole;
        for (int32_t v : device.holders) left -= w_.share[v];
        return left;
    }

    // Adds a row that asks: rows are served by priority, then time, then row number.
    void queue(Device& device, int32_t v, Time now) const {
        auto later = [&](const Asking& a) {
            return std::tuple(-w_.priority[a.row], a.since, a.row) >
                   std::tuple(-w_.priority[v], now, v);
        };
        auto place = std::find_if(device.asking.begin(), device.asking.end(), later);
        device.asking.insert(place, {v, now, -1});
    }

    // The row that keeps the asking one from starting, or -1. A row that does not yield and still
    // has blocks to start is in the way whether there is room or not.
    int32_t in_the_way(const Device& device, const Asking& asking, Time now) const {
        int32_t free = left(device) - w_.share[asking.row];
        if (free < 0) return device.holders.front();
        int32_t earlier = -1;
        for (const Work& work : device.running) {
            free -= w_.share[work.row];
            if (!before(work, asking)) continue;
            if (!yields(work, asking) && rounds_left(work, now) > 1) return work.row;
            earlier = work.row;
        }
        bool fits = free >= 0 || device.round_end == now;
        return fits ? -1 : earlier;
    }

    // When to look again on behalf of the first that asks: when a row that is in its way begins its
    // last round (`yielding` false), or when a round of a row that yields ends (true). kNever if
    // there is no such row: the ends of rows and of communication are noticed anyway.
    Time next_round(const Device& device, Time now, bool yielding) const {
        const Asking& first = device.asking.front();
        Time next = kNever;
        if (w_.share[first.row] > left(device)) return next;
        for (const Work& work : device.running) {
            double rounds = rounds_left(work, now);
            bool counts = yielding || (before(work, first) && rounds > 1);
            if (yields(work, first) != yielding || !counts || work.rate <= 0) continue;
            double until = (yielding ? rounds - 1 : 1) * round(work);
            double wait = std::ceil((remaining(work, now) - until) / work.rate);
            next = std::min(next, now + std::max<Time>(amount(wait), 1));
        }
        return next;
    }

   private:
    bool before(const Work& work, const Asking& asking) const {
        return std::tuple(work.began, work.row) < std::tuple(asking.since, asking.row);
    }
    bool yields(const Work& work, const Asking& asking) const {
        return w_.priority[work.row] < w_.priority[asking.row];
    }
    double remaining(const Work& work, Time now) const {
        return work.remaining - work.rate * static_cast<double>(now - work.since);
    }
    double round(const Work& work) const {
        return static_cast<double>(w_.duration[work.row]) / static_cast<double>(w_.waves[work.row]);
    }
    // Rounds that have not ended; one that is over except for a rounding error counts as ended.
    double rounds_left(const Work& work, Time now) const {
        return std::ceil(remaining(work, now) / round(work) - 1e-9);
    }

    const Workload& w_;
};

}  // namespace chakra::sim
