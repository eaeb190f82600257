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
    : refs_(static_cast<size_t>(std::max(pages.most, pages.count))),
      before_(refs_.size() + 1),
      after_(refs_.size() + 1),
      owner_(refs_.size(), -1),
      key_(refs_.size()),
      target_(pages.count),
      head_(static_cast<int32_t>(refs_.size())),
      host_(pages.host),
      ghosts_(pages.ghosts),
      store_(&store),
      salt_(pages.salt) {
    before_[at(head_)] = after_[at(head_)] = head_;
    for (int32_t b = 0; b < static_cast<int32_t>(pages.count); ++b) append(b);
    for (int32_t b = head_ - 1; b >= static_cast<int32_t>(pages.count); --b) retired_.push_back(b);
}

void Blocks::unlink(int32_t block) {
    after_[at(before_[at(block)])] = after_[at(block)];
    before_[at(after_[at(block)])] = before_[at(block)];
    --free_;
}

void Blocks::insert(int32_t block, int32_t before) {
    int32_t last = before_[at(before)];
    after_[at(last)] = block;
    before_[at(block)] = last;
    after_[at(block)] = before;
    before_[at(before)] = block;
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

int32_t Blocks::take() {
    if (free_ == 0) throw std::logic_error("no block is free");
    int32_t block = chosen();
    unlink(block);
    empty(block);
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
    int32_t block = after_[at(head_)];
    unlink(block);
    empty(block);
    retired_.push_back(block);
}

void Blocks::resize(int64_t count) {
    target_ = std::min(count, slots());
    while (there() > target_ && free_ > 0) retire();
    for (; there() < target_; retired_.pop_back()) insert(retired_.back(), after_[at(head_)]);
}

int64_t Blocks::refill() {
    std::vector<Tier::Entry> last;
    for (int32_t b = after_[at(head_)]; b != head_ && !has_key(b); b = after_[at(b)])
        last.push_back({0, -1});
    size_t count = 0;
    for (const Tier::Entry& entry : host_) {
        if (count == last.size()) break;
        if (map_.find(entry.key) < 0) last[count++] = entry;
    }
    // The newest of them will leave last.
    int32_t block = after_[at(head_)];
    for (size_t i = last.size(); i-- > 0; block = after_[at(block)])
        if (i < count) name(block, last[i].key, last[i].word);
    return static_cast<int64_t>(count);
}

}  // namespace chakra::serving
