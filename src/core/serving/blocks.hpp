// The pages of a key-value cache: who holds each, what it contains, and which is reused next.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/serving/block_map.hpp"
#include "core/serving/tier.hpp"

namespace chakra::serving {

// A block is held by one or more requests (its references), or it is free. Free blocks keep their
// content until they are reused, least recently freed first; a key finds them while they last.
// What a reused block held goes to the host tier, and what leaves that to the store engines share.
class Blocks {
   public:
    using Evict = std::function<int32_t(const std::vector<int32_t>&)>;

    Blocks(int64_t count, int64_t host_blocks, Tier& remote);

    int64_t total() const { return static_cast<int64_t>(refs_.size()); }
    int64_t free() const { return free_; }
    int64_t held() const { return total() - free_; }

    // The block with this content, or -1.
    int32_t find(uint64_t key) const { return key == 0 ? -1 : map_.find(key); }
    bool on_host(uint64_t key) const { return host_.has(key); }
    bool on_remote(uint64_t key) const { return remote_->has(key); }

    // One more holder of a block that has content.
    void hold(int32_t block);
    // A block with nothing in it. There must be a free one.
    int32_t take();
    // One holder less.
    void drop(int32_t block);
    // Says what a block contains; the first block with some content keeps its key.
    void name(int32_t block, uint64_t key);
    // Forgets all content, as a restart does. Nothing may be held.
    void forget();

    int64_t references(int32_t block) const { return refs_[static_cast<size_t>(block)]; }
    bool has_key(int32_t block) const { return key_[static_cast<size_t>(block)] != 0; }
    void on_evict(Evict choose) { choose_ = std::move(choose); }

   private:
    void unlink(int32_t block);
    void append(int32_t block);
    int32_t chosen();

    std::vector<int32_t> refs_, before_, after_;
    std::vector<uint64_t> key_;
    int32_t head_;  // one past the last block: a ring through the free ones
    int64_t free_ = 0;
    BlockMap map_;
    Tier host_;
    Tier* remote_;
    Evict choose_;
};

}  // namespace chakra::serving
