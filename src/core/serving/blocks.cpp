#include "core/serving/blocks.hpp"

#include <stdexcept>

namespace chakra::serving {

namespace {

size_t at(int32_t block) {
    return static_cast<size_t>(block);
}

}  // namespace

Blocks::Blocks(int64_t count, int64_t host_blocks, Tier& remote)
    : refs_(static_cast<size_t>(count)),
      before_(static_cast<size_t>(count) + 1),
      after_(static_cast<size_t>(count) + 1),
      key_(static_cast<size_t>(count)),
      head_(static_cast<int32_t>(count)),
      host_(host_blocks),
      remote_(&remote) {
    before_[at(head_)] = after_[at(head_)] = head_;
    for (int32_t b = 0; b < head_; ++b) append(b);
}

void Blocks::unlink(int32_t block) {
    after_[at(before_[at(block)])] = after_[at(block)];
    before_[at(after_[at(block)])] = before_[at(block)];
    --free_;
}

void Blocks::append(int32_t block) {
    int32_t last = before_[at(head_)];
    after_[at(last)] = block;
    before_[at(block)] = last;
    after_[at(block)] = head_;
    before_[at(head_)] = block;
    ++free_;
}

void Blocks::hold(int32_t block) {
    if (refs_[at(block)]++ == 0) unlink(block);
}

int32_t Blocks::chosen() {
    if (!choose_ || !has_key(after_[at(head_)])) return after_[at(head_)];
    std::vector<int32_t> cached;
    for (int32_t b = after_[at(head_)]; b != head_; b = after_[at(b)]) {
        if (!has_key(b)) return b;
        cached.push_back(b);
    }
    int32_t pick = choose_(cached);
    if (pick < 0 || pick >= head_ || refs_[at(pick)] != 0) {
        throw std::out_of_range("evict chose a block that is not free");
    }
    return pick;
}

int32_t Blocks::take() {
    if (free_ == 0) throw std::logic_error("no block is free");
    int32_t block = chosen();
    unlink(block);
    if (key_[at(block)] != 0) {
        map_.erase(key_[at(block)]);
        if (uint64_t leaves = host_.put(key_[at(block)]); leaves != 0) remote_->put(leaves);
        key_[at(block)] = 0;
    }
    refs_[at(block)] = 1;
    return block;
}

void Blocks::drop(int32_t block) {
    if (refs_[at(block)] <= 0) throw std::logic_error("a block was released twice");
    if (--refs_[at(block)] == 0) append(block);
}

void Blocks::name(int32_t block, uint64_t key) {
    if (key == 0 || key_[at(block)] != 0 || map_.find(key) >= 0) return;
    key_[at(block)] = key;
    map_.insert(key, block);
}

void Blocks::forget() {
    for (uint64_t& key : key_) key = 0;
    map_.clear();
}

}  // namespace chakra::serving
