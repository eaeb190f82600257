// From the key of a block's content to the block that holds it: open addressing, with deletion.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chakra::serving {

// Keys are hashes already and never 0. Grows at half load, so that probes stay short.
class BlockMap {
   public:
    BlockMap() : slots_(16) {}

    // The block with this key, or -1.
    int32_t find(uint64_t key) const {
        for (size_t i = home(key);; i = next(i)) {
            if (slots_[i].key == key) return slots_[i].block;
            if (slots_[i].key == 0) return -1;
        }
    }

    // The key must not be there yet.
    void insert(uint64_t key, int32_t block) {
        if (2 * ++size_ > slots_.size()) grow();
        place({key, block});
    }

    void erase(uint64_t key) {
        size_t hole = home(key);
        while (slots_[hole].key != key) {
            if (slots_[hole].key == 0) return;
            hole = next(hole);
        }
        --size_;
        // Entries after the hole move back unless they are already at or behind their home.
        for (size_t i = next(hole); slots_[i].key != 0; i = next(i)) {
            if (((i - home(slots_[i].key)) & mask()) >= ((i - hole) & mask())) {
                slots_[hole] = slots_[i];
                hole = i;
            }
        }
        slots_[hole] = {};
    }

    size_t size() const { return size_; }

    void clear() {
        slots_.assign(16, {});
        size_ = 0;
    }

   private:
    struct Slot {
        uint64_t key = 0;
        int32_t block = -1;
    };

    size_t mask() const { return slots_.size() - 1; }
    size_t home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull >> 20) & mask(); }
    size_t next(size_t i) const { return (i + 1) & mask(); }

    void place(Slot slot) {
        size_t i = home(slot.key);
        while (slots_[i].key != 0) i = next(i);
        slots_[i] = slot;
    }

    void grow() {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.key != 0) place(slot);
        }
    }

    std::vector<Slot> slots_;
    size_t size_ = 0;
};

}  // namespace chakra::serving
