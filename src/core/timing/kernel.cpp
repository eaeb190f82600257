#include "core/timing/kernel.hpp"

#include <numeric>

namespace chakra::timing {

Kernel::Kernel(const Constraints& c)
    : lanes_(c),
      offsets_(2 * static_cast<size_t>(c.rows) + 2, 0),
      links_(c.src.size()),
      events_(2 * static_cast<size_t>(c.rows)) {
    // Counted two places ahead: filling then moves each offset to where it belongs.
    for (size_t e = 0; e < c.src.size(); ++e) ++offsets_[source(c, e) + 2];
    std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
    for (size_t e = 0; e < c.src.size(); ++e)
        links_[offsets_[source(c, e) + 1]++] = {target(c, e), static_cast<int32_t>(e), c.lag[e]};
    count_constraints(c);
}

void Kernel::count_constraints(const Constraints& c) {
    for (const Link& link : links_) ++events_[link.to].pending;
    for (int32_t v = 0; v < c.rows; ++v) {
        events_[start_of(v)].time = 0;
        ++events_[end_of(v)].pending;
        if (int32_t next = lanes_.follower[v]; next >= 0) ++events_[start_of(next)].pending;
        if (int32_t held = lanes_.releases[v]; held >= 0) ++events_[end_of(held)].pending;
    }
}

}  // namespace chakra::timing
