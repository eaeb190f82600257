// Pool lanes: each runs one row at a time, chosen among those that are ready.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "core/sim/engine.hpp"

namespace chakra::sim {

class Pools {
   public:
    explicit Pools(size_t lanes) : pools_(lanes) {}

    void resize(size_t lanes) { pools_.resize(lanes); }

    // The row is ready and waits for its lane.
    void add(int32_t lane, int32_t priority, Time now, int32_t row) {
        Pool& pool = pools_[lane];
        pool.ready.push_back({priority, now, row});
        std::push_heap(pool.ready.begin(), pool.ready.end(), later);
        look_at(lane);
    }

    // The row that ran on the lane has ended.
    void free(int32_t lane) {
        pools_[lane].busy = false;
        if (!pools_[lane].ready.empty()) look_at(lane);
    }

    // Lanes on which something may start, each once; a policy is asked in their order.
    std::vector<int32_t> take_candidates(bool sorted) {
        std::vector<int32_t> lanes = std::exchange(candidates_, {});
        for (int32_t lane : lanes) pools_[lane].listed = false;
        if (sorted) std::sort(lanes.begin(), lanes.end());
        return lanes;
    }

    struct Started {
        int32_t row = -1;     // -1: the lane is busy, empty, or its policy waits
        int32_t before = -1;  // the row that ran on the lane before
    };

    // Starts the row of the lane that goes first.
    Started start(int32_t lane, Time now, const Pick& pick) {
        Pool& pool = pools_[lane];
        if (pool.busy || pool.ready.empty()) return {};
        int32_t row = pick ? chosen(pool, lane, now, pick) : first(pool);
        if (row < 0) return {};
        pool.busy = true;
        return {row, std::exchange(pool.last, row)};
    }

   private:
    // A row that waits for its lane; the smallest goes first.
    struct Ready {
        int32_t priority;
        Time since;
        int32_t row;
        bool operator<(const Ready& other) const {
            return std::tuple(-priority, since, row) <
                   std::tuple(-other.priority, other.since, other.row);
        }
    };
    struct Pool {
        bool busy = false, listed = false;  // listed: already among the candidates
        int32_t last = -1;                  // the row it ran last
        std::vector<Ready> ready;           // a heap, smallest first
    };

    static bool later(const Ready& a, const Ready& b) { return b < a; }

    void look_at(int32_t lane) {
        if (!pools_[lane].listed) candidates_.push_back(lane);
        pools_[lane].listed = true;
    }

    static int32_t first(Pool& pool) {
        std::pop_heap(pool.ready.begin(), pool.ready.end(), later);
        int32_t row = pool.ready.back().row;
        pool.ready.pop_back();
        return row;
    }

    // The row a policy chose, or -1 where it wants none of those that are ready.
    static int32_t chosen(Pool& pool, int32_t lane, Time now, const Pick& pick) {
        std::sort(pool.ready.begin(), pool.ready.end());  // a sorted list is a heap too
        std::vector<int32_t> rows;
        for (const Ready& r : pool.ready) rows.push_back(r.row);
        int64_t place = pick(lane, now, rows);
        if (place < 0) return -1;
        pool.ready.erase(pool.ready.begin() + place);
        return rows[place];
    }

    std::vector<Pool> pools_;
    std::vector<int32_t> candidates_;
};

}  // namespace chakra::sim
