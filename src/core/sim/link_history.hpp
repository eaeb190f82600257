// What each link carries in each part of a run.
//
// A simulation does not write this down: most are asked for their times alone. Once it is over, its
// jobs are run again on the network alone, each from the moment at which it started (`carried`).
// What jobs do to each other depends on nothing else, so every flow has the rates it had.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/sim/plans.hpp"
#include "core/sim/workload.hpp"

namespace chakra::sim {

class LinkHistory {
   public:
    // `borders` ascend: each part lies between two of them.
    LinkHistory(size_t links, std::vector<Time> borders)
        : borders_(std::move(borders)), bytes_(links * parts(), 0.0) {}

    size_t parts() const { return borders_.size() - 1; }

    // Spreads bytes evenly over the time that a link took for them; what lies outside is dropped.
    void add(int32_t link, Time from, Time until, double bytes) {
        auto above = std::upper_bound(borders_.begin(), borders_.end(), from);
        auto part = static_cast<size_t>(std::max<ptrdiff_t>(above - borders_.begin() - 1, 0));
        double* row = bytes_.data() + static_cast<size_t>(link) * parts();
        if (until <= from) {
            if (part < parts()) row[part] += bytes;
            return;
        }
        double rate = bytes / static_cast<double>(until - from);
        for (; part < parts() && borders_[part] < until; ++part) {
            Time inside = std::min(until, borders_[part + 1]) - std::max(from, borders_[part]);
            row[part] += rate * static_cast<double>(std::max<Time>(inside, 0));
        }
    }

    std::vector<double> take() && { return std::move(bytes_); }

   private:
    std::vector<Time> borders_;
    std::vector<double> bytes_;  // by link and part
};

// The bytes over each link in each part. `payload` are those of each transfer that count; of the
// workload only jobs, their plans and ranks, and the faults of links are looked at. Jobs that never
// started have a negative time.
std::vector<double> carried(const Plans& plans, const Topology& topology,
                            std::span<const double> payload, const Workload& jobs,
                            std::span<const Time> started, std::vector<Time> borders);

}  // namespace chakra::sim
