// Room for cached content outside the device: a host's memory, or a store that engines share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/serving/block_map.hpp"

namespace chakra::serving {

// Keys in the order they came; the oldest leave when there is no room. A key has a word beside it:
// on the host the request that computed it, in the store the codec that it is encoded with.
class Tier {
   public:
    static constexpr int64_t WHOLE = 1 << 20;  // the size of a block as it was

    struct Entry {
        uint64_t key;
        int32_t word;
        int64_t size = WHOLE;
    };

    explicit Tier(int64_t blocks) : room_(blocks * WHOLE) {}

    bool has_room() const { return room_ > 0; }
    bool has(uint64_t key) const { return word(key) >= 0; }
    // What stands beside a key; -1 where it is not there.
    int32_t word(uint64_t key) const { return key == 0 ? -1 : words_.find(key); }

    // Takes an entry in, and gives those that leave to a function: the entry itself, where there is
    // no room for it at all.
    template <class F>
    void put(const Entry& entry, F&& leaves) {
        if (entry.size > room_) return leaves(entry);
        if (words_.find(entry.key) >= 0) return;
        for (; held_ + entry.size > room_; entries_.pop_front()) {
            Entry old = entries_.front();
            held_ -= old.size;
            words_.erase(old.key);
            leaves(old);
        }
        entries_.push_back(entry);
        words_.insert(entry.key, entry.word);
        held_ += entry.size;
    }

    // Newest first.
    auto begin() const { return entries_.rbegin(); }
    auto end() const { return entries_.rend(); }

   private:
    int64_t room_, held_ = 0;
    std::deque<Entry> entries_;
    BlockMap words_;
};

// A way to send or keep a cache smaller.
struct Codec {
    double ratio = 1, ps_per_encoded_token = 0, ps_per_decoded_token = 0;

    // Room that a block takes, in parts of a whole one.
    int64_t size() const {
        return std::max<int64_t>(1, std::llround(static_cast<double>(Tier::WHOLE) / ratio));
    }
};

// The store that engines share: blocks, each encoded in one of several ways.
struct Store {
    Tier tier;
    const std::vector<Codec>& codecs;

    void put(uint64_t key, int32_t codec) {
        tier.put({key, codec, codecs[static_cast<size_t>(codec)].size()},
                 [](const Tier::Entry&) {});
    }
};

}  // namespace chakra::serving
