// Room for cached content outside the device: a host's memory, or a store that engines share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/serving/block_map.hpp"

namespace chakra::serving {

// Keys in the order they came; the oldest leaves when there is no room.
class Tier {
   public:
    explicit Tier(int64_t room) : ring_(static_cast<size_t>(room)) {}

    bool has_room() const { return !ring_.empty(); }
    bool has(uint64_t key) const { return key != 0 && map_.find(key) >= 0; }
    // Takes a key in; gives the one that has to leave, which is the key itself where there is no
    // room at all, or 0.
    uint64_t put(uint64_t key) {
        if (ring_.empty()) return key;
        if (map_.find(key) >= 0) return 0;
        uint64_t leaves = ring_[next_];
        if (leaves != 0) map_.erase(leaves);
        ring_[next_] = key;
        map_.insert(key, static_cast<int32_t>(next_));
        next_ = (next_ + 1) % ring_.size();
        return leaves;
    }

   private:
    std::vector<uint64_t> ring_;
    BlockMap map_;
    size_t next_ = 0;
};

}  // namespace chakra::serving
