#include "core/timing/lanes.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace chakra::timing {

namespace {

// The rows of every lane that is not a pool, in the order they run.
struct Grouped {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> rows;

    size_t size() const { return offsets.size() - 1; }
    std::span<int32_t> lane(size_t l) {
        return std::span(rows).subspan(offsets[l], offsets[l + 1] - offsets[l]);
    }
};

LaneKind kind_of(const Constraints& c, int32_t lane) {
    return c.lane_kind.empty() ? kOrdered : static_cast<LaneKind>(c.lane_kind[lane]);
}

Grouped group_by_lane(const Constraints& c) {
    Grouped grouped;
    if (c.lane.empty()) return grouped;
    auto counts = [&](int32_t lane) { return lane >= 0 && kind_of(c, lane) != kPool; };
    int32_t lanes = 1 + *std::max_element(c.lane.begin(), c.lane.end());
    grouped.offsets.assign(lanes + 1, 0);
    for (int32_t lane : c.lane)
        if (counts(lane)) ++grouped.offsets[lane + 1];
    std::partial_sum(grouped.offsets.begin(), grouped.offsets.end(), grouped.offsets.begin());
    grouped.rows.resize(grouped.offsets.back());
    std::vector<int64_t> next(grouped.offsets.begin(), grouped.offsets.end() - 1);
    for (int32_t v = 0; v < c.rows; ++v)
        if (counts(c.lane[v])) grouped.rows[next[c.lane[v]]++] = v;
    return grouped;
}

void sort_lane(std::span<int32_t> lane, std::span<const int64_t> order) {
    if (order.empty()) return;
    auto before = [&](int32_t a, int32_t b) { return order[a] < order[b]; };
    // Recorded traces mostly come in order; a stable sort leaves equal keys by row.
    if (!std::is_sorted(lane.begin(), lane.end(), before))
        std::stable_sort(lane.begin(), lane.end(), before);
}

void chain(std::span<const int32_t> lane, std::vector<int32_t>& follower) {
    for (size_t i = 1; i < lane.size(); ++i) follower[lane[i - 1]] = lane[i];
}

void queue(const Constraints& c, std::span<const int32_t> lane, std::vector<int32_t>& launched,
           std::vector<int32_t>& releases) {
    launched.clear();
    for (int32_t v : lane)
        if (c.launch_of[v] >= 0) launched.push_back(v);
    for (size_t k = c.queue_depth; k < launched.size(); ++k)
        releases[launched[k - c.queue_depth]] = c.launch_of[launched[k]];
}

}  // namespace

Lanes::Lanes(const Constraints& c) : follower(c.rows, -1), releases(c.rows, -1) {
    Grouped grouped = group_by_lane(c);
    bool queues = c.queue_depth > 0 && !c.launch_of.empty();
    std::vector<int32_t> launched;
    for (size_t l = 0; l < grouped.size(); ++l) {
        std::span<int32_t> lane = grouped.lane(l);
        sort_lane(lane, c.order);
        if (kind_of(c, static_cast<int32_t>(l)) == kOrdered) chain(lane, follower);
        if (queues) queue(c, lane, launched, releases);
    }
}

void Lanes::append(Lanes&& more) {
    auto first = static_cast<int32_t>(follower.size());
    if (first == 0) {
        *this = std::move(more);
        return;
    }
    auto moved = [first](int32_t row) { return row < 0 ? row : row + first; };
    std::transform(more.follower.begin(), more.follower.end(), std::back_inserter(follower), moved);
    std::transform(more.releases.begin(), more.releases.end(), std::back_inserter(releases), moved);
}

}  // namespace chakra::timing
