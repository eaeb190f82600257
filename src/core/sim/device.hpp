// A device: what runs on it, what communication holds of it, and who may start next.
//
// Kernels run in rounds of blocks. One that came first starts all of its blocks before another of
// its priority starts any; one of lower priority gives up room as its blocks end.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "core/sim/engine.hpp"

namespace chakra::sim {

constexpr double kFar = 4e18;  // picoseconds from now that are not waited for: no clock has them

// A compute row in progress.
struct Work {
    int32_t row;
    double remaining, rate;
    Time since;  // when both were true
    Time began;
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
    std::vector<Asking> asking;    // who is served first stands first
    int32_t communicating = 0;
    double factor = 1;
    Time round_end = -1;    // when a row last had blocks to give up to one of higher priority
    bool gives_up = false;  // whether the next round that is waited for is such a one
    uint32_t version = 0;
    bool dirty = false, asked = false;  // asked: already on the list of devices to look at
};

// The rules of a device. It knows rows, and changes nothing but the queue of those who ask.
class Room {
   public:
    explicit Room(const Workload& w) : w_(w) {}

    bool needed(int32_t row) const { return w_.kind[row] == kComm && w_.share[row] > 0; }

    // What communication leaves.
    int32_t left(const Device& device) const {
        int32_t left = kWhole;
        for (int32_t v : device.holders) left -= w_.share[v];
        return left;
    }

    // Those who ask are served by priority, then time, then row.
    void queue(Device& device, int32_t v, Time now) const {
        auto later = [&](const Asking& a) {
            return std::tuple(-w_.priority[a.row], a.since, a.row) >
                   std::tuple(-w_.priority[v], now, v);
        };
        auto place = std::find_if(device.asking.begin(), device.asking.end(), later);
        device.asking.insert(place, {v, now, -1});
    }

    // The row that keeps one who asks from starting, or -1. A row that does not yield and has
    // blocks to start is in the way, room or not.
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

    // When to look again, for the first of those who ask: when the last round begins of a row that
    // is in its way (`yielding` false), or a round ends of one that yields. kNever where there is
    // none: the ends of rows and of what holds the device are noticed anyway.
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
            if (wait < kFar)
                next = std::min(next, now + std::max<Time>(static_cast<Time>(wait), 1));
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
    // Rounds that have not ended; one that is over but for rounding is over.
    double rounds_left(const Work& work, Time now) const {
        return std::ceil(remaining(work, now) / round(work) - 1e-9);
    }

    const Workload& w_;
};

}  // namespace chakra::sim
