#include "core/timing/kernel.hpp"

#include <numeric>
#include <utility>

namespace chakra::timing {

void Kernel::append(const Constraints& c) {
    Lanes lanes(c);
    append_links(c);
    events_.resize(events_.size() + 2 * static_cast<size_t>(c.rows));
    count_constraints(c, lanes);
    lanes_.append(std::move(lanes));
}

void Kernel::append_links(const Constraints& c) {
    auto events = static_cast<EventId>(events_.size());
    size_t edges = links_.size();
    links_.resize(edges + c.src.size());
    // Counted two places ahead: filling then moves each offset to where it belongs.
    std::vector<uint32_t> offsets(2 * static_cast<size_t>(c.rows) + 2, 0);
    for (size_t e = 0; e < c.src.size(); ++e) ++offsets[source(c, e) + 2];
    offsets[0] = static_cast<uint32_t>(edges);
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    for (size_t e = 0; e < c.src.size(); ++e)
        links_[offsets[source(c, e) + 1]++] = {events + target(c, e),
                                               static_cast<int32_t>(edges + e), c.lag[e]};
    offsets_.resize(events);  // what stood behind the last event are ends, which these repeat
    if (events == 0)
        offsets_ = std::move(offsets);
    else
        offsets_.insert(offsets_.end(), offsets.begin(), offsets.end());
}

void Kernel::count_constraints(const Constraints& c, const Lanes& lanes) {
    auto first = static_cast<EventId>(events_.size()) - 2 * static_cast<EventId>(c.rows);
    for (size_t e = links_.size() - c.src.size(); e < links_.size(); ++e)
        ++events_[links_[e].to].pending;
    for (int32_t v = 0; v < c.rows; ++v) {
        events_[first + start_of(v)].time = 0;
        ++events_[first + end_of(v)].pending;
        if (int32_t next = lanes.follower[v]; next >= 0) ++events_[first + start_of(next)].pending;
        if (int32_t held = lanes.releases[v]; held >= 0) ++events_[first + end_of(held)].pending;
    }
}

}  // namespace chakra::timing
