// A hash table from 64-bit ids to small values, safe to fill from files that are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace chakra {

// Drawn once per process, so that no file can be crafted whose ids all collide.
inline const std::pair<uint64_t, uint64_t>& hash_seed() {
    static const std::pair<uint64_t, uint64_t> seed = [] {
        std::random_device random;
        auto word = [&] { return static_cast<uint64_t>(random()) << 32 | random(); };
        return std::pair{word(), word() | 1};
    }();
    return seed;
}

// Open addressing with linear probing; entries of 16 bytes lie in one array that is 53 to 80 %
// full.
//
// A value equal to V{} marks an empty entry, so the caller that inserts must set another one.
// Pointers to values hold until the next insertion or erasure. Nothing depends on the order of
// entries.
template <class V>
class IdMap {
   public:
    IdMap() : seed_(hash_seed()), entries_(kSmallest) {}

    size_t size() const { return size_; }

    V* find(uint64_t key) {
        Entry& entry = entries_[probe(key)];
        return entry.value == V{} ? nullptr : &entry.value;
    }
    const V* find(uint64_t key) const { return const_cast<IdMap*>(this)->find(key); }

    // The key's value, V{} if it is new.
    V& operator[](uint64_t key) {
        Entry* entry = &entries_[probe(key)];
        if (entry->value != V{}) return entry->value;
        if ((size_ + 1) * 5 > entries_.size() * 4) {
            grow();
            entry = &entries_[probe(key)];
        }
        ++size_;
        entry->key = key;
        return entry->value;
    }

    void erase(uint64_t key) {
        size_t hole = probe(key);
        if (entries_[hole].value == V{}) return;
        --size_;
        close(hole);
    }

   private:
    struct Entry {
        uint64_t key = 0;
        V value{};
    };
    static constexpr size_t kSmallest = 16;

    // The high half of hash × size maps a hash on any size, so that tables need not double.
    size_t home(uint64_t key) const {
        auto wide = static_cast<unsigned __int128>(key ^ seed_.first) * seed_.second;
        uint64_t hash = static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
        return static_cast<size_t>(static_cast<unsigned __int128>(hash) * entries_.size() >> 64);
    }

    size_t after(size_t i) const { return i + 1 == entries_.size() ? 0 : i + 1; }

    size_t distance(size_t from, size_t to) const {
        return to >= from ? to - from : to + entries_.size() - from;
    }

    size_t probe(uint64_t key) const {
        size_t i = home(key);
        while (entries_[i].value != V{} && entries_[i].key != key) i = after(i);
        return i;
    }

    // Moves later entries of the run back, so that no tombstone is left.
    void close(size_t hole) {
        for (size_t i = after(hole); entries_[i].value != V{}; i = after(i)) {
            if (distance(home(entries_[i].key), i) < distance(hole, i)) continue;
            entries_[hole] = entries_[i];
            hole = i;
        }
        entries_[hole] = Entry{};
    }

    void grow() {
        std::vector<Entry> old(entries_.size() + entries_.size() / 2);
        old.swap(entries_);
        for (const Entry& entry : old)
            if (entry.value != V{}) entries_[probe(entry.key)] = entry;
    }

    std::pair<uint64_t, uint64_t> seed_;
    std::vector<Entry> entries_;
    size_t size_ = 0;
};

}  // namespace chakra
