// What rows run on: ordered lanes as chains of followers, and the launch queue's releases.
#pragma once

#include <algorithm>
#include <vector>

#include "core/sim/engine.hpp"

namespace chakra::sim {

struct Lanes {
    std::vector<int32_t> follower;  // by row: who is next on its ordered lane, or -1
    std::vector<int32_t> releases;  // by row: the launcher that may end once the row has started
    std::vector<uint8_t> follows;   // by row: whether somebody comes before it

    explicit Lanes(const Workload& w)
        : follower(w.duration.size(), -1),
          releases(w.duration.size(), -1),
          follows(w.duration.size(), 0) {
        std::vector<std::vector<int32_t>> rows(w.lane_kind.size());
        for (int32_t v = 0; v < w.rows(); ++v)
            if (w.lane[v] >= 0 && w.lane_kind[w.lane[v]] != kPool) rows[w.lane[v]].push_back(v);
        for (size_t l = 0; l < rows.size(); ++l) {
            sort(w, rows[l]);
            if (w.lane_kind[l] == kOrdered) chain(rows[l]);
            if (w.queue_depth > 0) queue(w, rows[l]);
        }
    }

   private:
    void sort(const Workload& w, std::vector<int32_t>& lane) {
        std::stable_sort(lane.begin(), lane.end(),
                         [&](int32_t a, int32_t b) { return w.order[a] < w.order[b]; });
    }

    void chain(const std::vector<int32_t>& lane) {
        for (size_t i = 1; i < lane.size(); ++i) {
            follower[lane[i - 1]] = lane[i];
            follows[lane[i]] = 1;
        }
    }

    void queue(const Workload& w, const std::vector<int32_t>& lane) {
        std::vector<int32_t> launched;
        for (int32_t v : lane)
            if (w.launch_of[v] >= 0) launched.push_back(v);
        for (size_t k = w.queue_depth; k < launched.size(); ++k)
            releases[launched[k - w.queue_depth]] = w.launch_of[launched[k]];
    }
};

}  // namespace chakra::sim
