#include "core/serving/blocks.hpp"

#include <algorithm>
#include <stdexcept>

namespace chakra::serving {

namespace {

size_t at(int32_t block) {
    return static_cast<size_t>(block);
}

}  // namespace

Blocks::Blocks(const Pages& pages, Store& store)
    : before_{HEAD},
      after_{HEAD},
      slots_(std::max(pages.most, pages.count)),
      target_(pages.count),
      fresh_(pages.count),
      host_(pages.host),
      ghosts_(pages.ghosts),
      store_(&store),
      salt_(pages.salt) {}

void Blocks::unlink(int32_t block) {
    after_[ring(before_[ring(block)])] = after_[ring(block)];
    before_[ring(after_[ring(block)])] = before_[ring(block)];
    --free_;
}

void Blocks::insert(int32_t block, int32_t before) {
    int32_t last = before_[ring(before)];
    after_[ring(last)] = block;
    before_[ring(block)] = last;
    after_[ring(block)] = before;
    before_[ring(before)] = block;
    ++free_;
}

// A block that was never used; it is in no ring yet.
int32_t Blocks::make() {
    auto block = static_cast<int32_t>(refs_.size());
    refs_.push_back(0);
    before_.push_back(HEAD);
    after_.push_back(HEAD);
    owner_.push_back(-1);
    key_.push_back(0);
    --fresh_;
    return block;
}

void Blocks::hold(int32_t block) {
    if (refs_[at(block)]++ == 0) unlink(block);
}

int32_t Blocks::chosen() {
    if (!choose_ || !has_key(first())) return first();
    std::vector<int32_t> cached;
    for (int32_t b = first(); b != HEAD; b = after_[ring(b)]) {
        if (!has_key(b)) return b;
        cached.push_back(b);
    }
    int32_t pick = choose_(cached);
    if (std::find(cached.begin(), cached.end(), pick) == cached.end()) {
        throw std::out_of_range("evict chose a block that is not free");
    }
    return pick;
}

// What a block held goes to the next tier.
void Blocks::empty(int32_t block) {
    uint64_t key = key_[at(block)];
    if (key == 0) return;
    map_.erase(key);
    ghosts_.put(key, 1);
    host_.put({key, owner_[at(block)]}, [this](const Tier::Entry& entry) { keep(entry); });
    key_[at(block)] = 0;
}

void Blocks::keep(const Tier::Entry& entry) {
    if (!store_->tier.has_room() || stored(entry.key) >= 0) return;
    int32_t codec = codec_ ? codec_(entry.word) : 0;
    if (codec < 0 || at(codec) >= store_->codecs.size())
        throw std::out_of_range("store_codec chose one that is not there");
    store_->put(salted(entry.key), codec);
}

int32_t Blocks::reused() {
    int32_t block = chosen();
    unlink(block);
    empty(block);
    return block;
}

int32_t Blocks::take() {
    if (free() == 0) throw std::logic_error("no block is free");
    int32_t block = fresh_ > 0 ? make() : reused();
    refs_[at(block)] = 1;
    return block;
}

void Blocks::drop(int32_t block) {
    if (refs_[at(block)] <= 0) throw std::logic_error("a block was released twice");
    if (--refs_[at(block)] > 0) return;
    append(block);
    if (there() > target_) retire();
}

void Blocks::name(int32_t block, uint64_t key, int32_t request) {
    if (key == 0 || key_[at(block)] != 0 || map_.find(key) >= 0) return;
    key_[at(block)] = key;
    owner_[at(block)] = request;
    map_.insert(key, block);
}

void Blocks::forget() {
    for (uint64_t& key : key_) key = 0;
    map_.clear();
}

// The least recently used block is no longer there.
void Blocks::retire() {
    if (fresh_ > 0) {
        --fresh_;
        return;
    }
    int32_t block = first();
    unlink(block);
    empty(block);
    retired_.push_back(block);
}

void Blocks::resize(int64_t count) {
    target_ = std::min(count, slots_);
    while (there() > target_ && free() > 0) retire();
    for (; there() < target_ && !retired_.empty(); retired_.pop_back())
        insert(retired_.back(), first());
    fresh_ += std::max<int64_t>(0, target_ - there());
}

int64_t Blocks::refill() {
    int64_t room = fresh_;
    for (int32_t b = first(); b != HEAD && !has_key(b); b = after_[ring(b)]) ++room;
    std::vector<Tier::Entry> newest;
    for (const Tier::Entry& entry : host_) {
        if (static_cast<int64_t>(newest.size()) == room) break;
        if (map_.find(entry.key) < 0) newest.push_back(entry);
    }
    auto count = static_cast<int64_t>(newest.size());
    for (room -= fresh_; room < count; ++room) insert(make(), first());
    // Blocks that stay empty are reused first, and the newest content last.
    int32_t block = first();
    for (; room > count; --room) block = after_[ring(block)];
    for (; room > 0; block = after_[ring(block)]) {
        const Tier::Entry& entry = newest[static_cast<size_t>(--room)];
        name(block, entry.key, entry.word);
    }
    return count;
}

}  // namespace chakra::serving
