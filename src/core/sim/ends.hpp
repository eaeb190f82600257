// When flows end: a heap in which a flow has one place, however often its end moves.
//
// Where thousands of flows share links, each one that ends moves the ends of many others, mostly by
// little: their places change by a step or two, and nothing of their old ends is left behind.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sim/plans.hpp"

namespace chakra::sim {

class Ends {
   public:
    bool empty() const { return heap_.empty(); }
    Time first() const { return heap_.empty() ? kNever : heap_[0].time; }
    int32_t first_flow() const { return heap_[0].flow; }

    void set(int32_t flow, Time time) {
        if (static_cast<size_t>(flow) >= place_.size()) place_.resize(flow + 1, kNowhere);
        if (place_[flow] == kNowhere) {
            heap_.push_back({time, flow});
            return rise(heap_.size() - 1, {time, flow});
        }
        auto place = static_cast<size_t>(place_[flow]);
        move(place, {time, flow}, heap_[place].time);
    }

    void erase(int32_t flow) {
        if (static_cast<size_t>(flow) >= place_.size() || place_[flow] == kNowhere) return;
        auto place = static_cast<size_t>(place_[flow]);
        Entry last = heap_.back();
        heap_.pop_back();
        place_[flow] = kNowhere;
        if (place < heap_.size()) move(place, last, heap_[place].time);
    }

   private:
    struct Entry {
        Time time;
        int32_t flow;
    };
    static constexpr int32_t kNowhere = -1;
    static constexpr size_t kChildren = 4;

    void put(size_t place, Entry entry) {
        heap_[place] = entry;
        place_[entry.flow] = static_cast<int32_t>(place);
    }

    void move(size_t place, Entry entry, Time before) {
        if (entry.time <= before)
            rise(place, entry);
        else
            sink(place, entry);
    }

    void rise(size_t place, Entry entry) {
        while (place > 0) {
            size_t above = (place - 1) / kChildren;
            if (heap_[above].time <= entry.time) break;
            put(place, heap_[above]);
            place = above;
        }
        put(place, entry);
    }

    void sink(size_t place, Entry entry) {
        while (true) {
            size_t first = place * kChildren + 1, least = first;
            if (first >= heap_.size()) break;
            for (size_t i = first + 1; i < first + kChildren && i < heap_.size(); ++i)
                if (heap_[i].time < heap_[least].time) least = i;
            if (heap_[least].time >= entry.time) break;
            put(place, heap_[least]);
            place = least;
        }
        put(place, entry);
    }

    std::vector<Entry> heap_;
    std::vector<int32_t> place_;  // by flow
};

}  // namespace chakra::sim
