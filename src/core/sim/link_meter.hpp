// What a port's counters would show: the throughput of a link while traffic queued for it.
//
// A link that holds its flows back is full at its bandwidth, however many share it; a faulty one is
// full below that. The lowest throughput while full, and when it was first so low, tell them apart.
#pragma once

#include <vector>

#include "core/sim/plans.hpp"

namespace chakra::sim {

struct LinkMeter {
    explicit LinkMeter(size_t links) : full_rate(links, kNeverFull), full_since(links, 0) {}

    void see_full(int32_t link, double rate, Time now) {
        if (full_rate[link] != kNeverFull && rate >= full_rate[link]) return;
        full_rate[link] = rate;
        full_since[link] = now;
    }

    static constexpr double kNeverFull = -1;
    std::vector<double> full_rate;  // by link, bytes per picosecond
    std::vector<Time> full_since;   // by link
};

}  // namespace chakra::sim
