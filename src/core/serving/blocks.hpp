// The pages of a key-value cache: who holds each, what it contains, and which is reused next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/serving/block_map.hpp"
#include "core/serving/content.hpp"
#include "core/serving/requests.hpp"
#include "core/serving/tier.hpp"

namespace chakra::serving {

// How many blocks there are, and may ever be; where content goes that leaves them.
struct Pages {
    int64_t count = 0, most = 0;  // `most` 0: no more than `count`
    int64_t host = 0;             // blocks of the host tier
    int64_t ghosts = 0;           // keys that are remembered after they left the device
    uint64_t salt = 0;            // tells models apart in the store that engines share
};

// A block is held by one or more requests (its references), or it is free. Free blocks keep their
// content until they are reused, least recently freed first; a key finds them while they last.
// What a reused block held goes to the host tier, and what leaves that to the store engines share.
// Memory may be taken away and given back: as many blocks as are free leave at once, and others as
// they become free.
class Blocks {
   public:
    using Evict = std::function<int32_t(const std::vector<int32_t>&)>;
    using ChooseCodec = std::function<int32_t(int32_t)>;

    Blocks(const Pages& pages, Store& store);

    int64_t total() const { return target_; }
    // Blocks that were ever used.
    size_t used() const { return refs_.size(); }
    int64_t free() const { return free_ + fresh_; }
    int64_t held() const { return there() - free(); }

    // The block with this content, or -1.
    int32_t find(uint64_t key) const { return key == 0 ? -1 : map_.find(key); }
    bool on_host(uint64_t key) const { return host_.has(key); }
    // How the store has this content encoded; -1 where it has not.
    int32_t stored(uint64_t key) const { return store_->tier.word(salted(key)); }
    // Whether it left the device lately.
    bool left_lately(uint64_t key) const { return key != 0 && ghosts_.has(key); }

    // One more holder of a block that has content.
    void hold(int32_t block);
    // A block with nothing in it. There must be a free one.
    int32_t take();
    // One holder less.
    void drop(int32_t block);
    // Says what a block contains, and which request computed it; the first block with some content
    // keeps its key.
    void name(int32_t block, uint64_t key, int32_t request);
    // Forgets all content, as a restart does. Nothing may be held.
    void forget();
    // Gives memory away, or takes it back: there are to be so many blocks.
    void resize(int64_t count);
    // Blocks that are there again get what left the device last and the host still has; how many.
    int64_t refill();

    int64_t references(int32_t block) const { return refs_[static_cast<size_t>(block)]; }
    bool has_key(int32_t block) const { return key_[static_cast<size_t>(block)] != 0; }
    void on_evict(Evict choose) { choose_ = std::move(choose); }
    void on_store(ChooseCodec choose) { codec_ = std::move(choose); }

   private:
    static constexpr int32_t HEAD = -1;  // stands before the first block of the ring
    static size_t ring(int32_t block) { return static_cast<size_t>(block + 1); }
    int32_t first() const { return after_[ring(HEAD)]; }
    int64_t there() const { return static_cast<int64_t>(used() - retired_.size()) + fresh_; }
    uint64_t salted(uint64_t key) const {
        return key == 0 || salt_ == 0 ? key : Requests::mix(key, salt_);
    }
    void unlink(int32_t block);
    void insert(int32_t block, int32_t before);
    void append(int32_t block) { insert(block, HEAD); }
    int32_t make();
    int32_t reused();
    void empty(int32_t block);
    void keep(const Tier::Entry& entry);
    void retire();
    int32_t chosen();

    // Of blocks that were ever used: memory is often far larger than what is held of it.
    std::vector<int32_t> refs_, owner_;
    std::vector<int32_t> before_, after_;  // a ring through the free ones, from `HEAD` to itself
    std::vector<uint64_t> key_;
    std::vector<int32_t> retired_;  // used once, not there at present
    int64_t slots_, target_;
    int64_t fresh_;     // there, and never used: they come before all others
    int64_t free_ = 0;  // in the ring
    BlockMap map_;
    Tier host_;
    ContentStore ghosts_;  // keys of blocks that left, as pieces of one
    Store* store_;
    uint64_t salt_;
    Evict choose_;
    ChooseCodec codec_;
};

}  // namespace chakra::serving
