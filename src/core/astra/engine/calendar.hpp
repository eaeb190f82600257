// The event queue: events in order of tick, and at one tick in order of insertion.
#pragma once

#include <algorithm>
#include <vector>

#include "core/astra/model/error.hpp"
#include "core/astra/model/model.hpp"

namespace chakra::astra {

enum class EventKind : uint8_t {
    Local,     // an endpoint's own events at one tick: `item` is the list
    Chunk,     // a message of a native collective reaches its receiver
    Message,   // a point-to-point message reaches its receiver: `item` is the message
    Notice,    // a receiver tells a sender that it is ready (rendezvous): `item` is the message
    Matched,   // a receive was posted after its message had come: `item` is the waiter
    LinkFree,  // `actor` is the link
    Hop,       // a message reaches the next device of its route: `item` is the parcel
};

struct Event {
    uint32_t next = kNone;
    EventKind kind = EventKind::Local;
    uint16_t phase = 0;
    uint32_t actor = 0;
    uint32_t slot = 0;  // the group, as the receiver names it
    uint32_t tag = 0;
    uint32_t item = 0;
    uint32_t plan = 0;
    uint64_t from = 0;  // whose event inserted this one, as the actor sees it; 0: its own
    Tick inserted = 0;
};

// A pool of linked nodes addressed by number: freed nodes are used again, nothing is allocated per
// event.
template <class T>
class Pool {
   public:
    uint32_t take(const T& value) {
        if (free_ == kNone) {
            items_.push_back(value);
            return static_cast<uint32_t>(items_.size() - 1);
        }
        uint32_t i = free_;
        free_ = items_[i].next;
        items_[i] = value;
        return i;
    }
    void give(uint32_t i) {
        items_[i].next = free_;
        free_ = i;
    }
    T& operator[](uint32_t i) { return items_[i]; }
    const T& operator[](uint32_t i) const { return items_[i]; }

   private:
    std::vector<T> items_;
    uint32_t free_ = kNone;
};

// A heap of distinct ticks, each with its FIFO of events; a hash from tick to FIFO joins equal
// ticks. Symmetric ranks share most ticks, so the heap stays small however many ranks there are.
class Calendar {
   public:
    Calendar() : table_(64, kNone) {}

    Tick now() const { return now_; }
    bool empty() const { return heap_.empty(); }

    void insert(Tick tick, Event event) {
        if (tick > kMaxTick)
            throw SimulationError("the simulated time is too long to be counted in ns");
        event.inserted = now_;
        event.next = kNone;
        uint32_t e = events_.take(event);
        Bucket& b = buckets_[bucket_at(tick)];
        if (b.head == kNone) {
            b.head = e;
        } else {
            events_[b.tail].next = e;
        }
        b.tail = e;
    }

    // Takes the next event; false when there is none.
    bool pop(Event& out) {
        while (!heap_.empty()) {
            uint32_t b = heap_.front().bucket;
            now_ = heap_.front().tick;
            uint32_t e = buckets_[b].head;
            if (e == kNone) {
                drop_front();
                continue;
            }
            out = events_[e];
            buckets_[b].head = out.next;
            events_.give(e);
            return true;
        }
        return false;
    }

   private:
    struct Bucket {
        uint32_t next = kNone;
        uint32_t head = kNone;
        uint32_t tail = kNone;
        Tick tick = 0;
    };
    struct Entry {
        Tick tick;
        uint32_t bucket;
        bool operator<(const Entry& o) const { return tick > o.tick; }
    };

    static size_t mix(Tick tick) {
        uint64_t x = static_cast<uint64_t>(tick) * 0x9e3779b97f4a7c15ull;
        return static_cast<size_t>(x >> 32);
    }

    uint32_t bucket_at(Tick tick) {
        if (last_ != kNone && buckets_[last_].tick == tick) return last_;
        size_t mask = table_.size() - 1;
        size_t i = mix(tick) & mask;
        while (table_[i] != kNone) {
            if (buckets_[table_[i]].tick == tick) return last_ = table_[i];
            i = (i + 1) & mask;
        }
        return last_ = new_bucket(tick, i);
    }

    uint32_t new_bucket(Tick tick, size_t place) {
        Bucket fresh;
        fresh.tick = tick;
        uint32_t b = buckets_.take(fresh);
        table_[place] = b;
        heap_.push_back({tick, b});
        std::push_heap(heap_.begin(), heap_.end());
        if (heap_.size() * 2 > table_.size()) grow();
        return b;
    }

    void grow() {
        std::vector<uint32_t> old(table_.size() * 2, kNone);
        old.swap(table_);
        size_t mask = table_.size() - 1;
        for (uint32_t b : old) {
            if (b == kNone) continue;
            size_t i = mix(buckets_[b].tick) & mask;
            while (table_[i] != kNone) i = (i + 1) & mask;
            table_[i] = b;
        }
    }

    void drop_front() {
        uint32_t b = heap_.front().bucket;
        erase(heap_.front().tick);
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        buckets_.give(b);
        last_ = kNone;
    }

    // Linear probing without tombstones: later entries of the run move back into the hole.
    void erase(Tick tick) {
        size_t mask = table_.size() - 1;
        size_t hole = mix(tick) & mask;
        while (buckets_[table_[hole]].tick != tick) hole = (hole + 1) & mask;
        for (size_t i = (hole + 1) & mask; table_[i] != kNone; i = (i + 1) & mask) {
            size_t home = mix(buckets_[table_[i]].tick) & mask;
            if (((i - home) & mask) >= ((i - hole) & mask)) {
                table_[hole] = table_[i];
                hole = i;
            }
        }
        table_[hole] = kNone;
    }

    Tick now_ = 0;
    uint32_t last_ = kNone;
    Pool<Event> events_;
    Pool<Bucket> buckets_;
    std::vector<Entry> heap_;
    std::vector<uint32_t> table_;
};

}  // namespace chakra::astra
