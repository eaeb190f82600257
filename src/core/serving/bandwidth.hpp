// A bandwidth that changes over time, as a factor of what it says.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/serving/requests.hpp"

namespace chakra::serving {

// From at[i] on the factor is factor[i]; before the first it is 1. The last one is above 0.
struct Bandwidth {
    std::vector<Time> at;
    std::vector<double> factor;

    // The factor at a time.
    double now(Time time) const {
        auto after = std::upper_bound(at.begin(), at.end(), time);
        return after == at.begin() ? 1.0 : factor[static_cast<size_t>(after - at.begin()) - 1];
    }

    // When work is done that would take `work` picoseconds at factor 1.
    Time end(Time start, double work) const {
        if (at.empty()) return start + std::llround(work);
        auto next = static_cast<size_t>(std::upper_bound(at.begin(), at.end(), start) - at.begin());
        auto time = static_cast<double>(start);
        for (;; ++next) {
            double speed = next == 0 ? 1.0 : factor[next - 1];
            double until = next < at.size() ? static_cast<double>(at[next])
                                            : std::numeric_limits<double>::infinity();
            if (work <= (until - time) * speed) return std::llround(time + work / speed);
            work -= (until - time) * speed;
            time = until;
        }
    }
};

}  // namespace chakra::serving
