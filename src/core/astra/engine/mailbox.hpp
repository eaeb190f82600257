// Matches messages with receives: by key and, within a key, in order.
#pragma once

#include <unordered_map>

#include "core/astra/engine/calendar.hpp"

namespace chakra::astra {

// What a message and its receive must agree on: receiver, sender as the receiver sees it, tag and
// size.
struct Key {
    uint64_t to = 0;
    uint64_t from = 0;
    uint64_t tag = 0;
    uint64_t size = 0;
    bool operator==(const Key&) const = default;
};

struct KeyHash {
    size_t operator()(const Key& k) const {
        uint64_t h = k.to * 0x9e3779b97f4a7c15ull;
        h = (h ^ (h >> 29) ^ k.from) * 0xbf58476d1ce4e5b9ull;
        h = (h ^ (h >> 32) ^ k.tag) * 0x94d049bb133111ebull;
        return static_cast<size_t>((h ^ (h >> 31) ^ k.size) * 0x9e3779b97f4a7c15ull >> 7);
    }
};

// Who sends or receives: a chunk of a native collective, a node, or a node of a custom collective.
struct Endpoint {
    enum class What : uint8_t { Chunk, Node, Custom } what = What::Node;
    uint16_t phase = 0;
    uint32_t actor = 0;
    uint32_t index = 0;  // chunk or node
    uint32_t item = 0;   // message of the chunk
};

struct Letter {
    uint32_t next = kNone;
    Endpoint sender;
    Key key;
    Rank from = 0;
    Rank to = 0;
    uint64_t bytes = 0;
    uint64_t channel = 0;  // the sender as the receiver sees it
};

// A posted receive, or a send that waits for its receiver's notice (`letter`).
struct Waiter {
    uint32_t next = kNone;
    Endpoint who;
    uint32_t letter = kNone;
};

// A slot holds either messages that came early or waiters, never both.
class Mailbox {
   public:
    bool empty() const { return slots_.empty(); }

    // A message has arrived: returns the waiter it belongs to, or kNone if it has to wait for one.
    uint32_t arrive(const Key& key, const Pool<Waiter>& waiters) {
        Slot& slot = slots_[key];
        if (slot.head == kNone) {
            ++slot.early;
            return kNone;
        }
        uint32_t w = slot.head;
        slot.head = waiters[w].next;
        if (slot.head == kNone) slots_.erase(key);
        return w;
    }

    // Returns true if the message is there already; otherwise keeps the waiter.
    bool post(const Key& key, uint32_t waiter, Pool<Waiter>& waiters) {
        Slot& slot = slots_[key];
        if (slot.early > 0) {
            if (--slot.early == 0) slots_.erase(key);
            return true;
        }
        if (slot.head == kNone) {
            slot.head = waiter;
        } else {
            waiters[slot.tail].next = waiter;
        }
        slot.tail = waiter;
        return false;
    }

    // The key of a message that came early and was never taken, of all that `counts` is true for.
    template <class Counts>
    const Key* left_over(Counts&& counts) const {
        for (const auto& [key, slot] : slots_)
            if (slot.early > 0 && counts(key)) return &key;
        return nullptr;
    }

    // Takes one early message if there is one.
    bool take(const Key& key) {
        auto it = slots_.find(key);
        if (it == slots_.end() || it->second.early == 0) return false;
        if (--it->second.early == 0) slots_.erase(it);
        return true;
    }

   private:
    struct Slot {
        uint32_t early = 0;
        uint32_t head = kNone;
        uint32_t tail = kNone;
    };
    std::unordered_map<Key, Slot, KeyHash> slots_;
};

}  // namespace chakra::astra
