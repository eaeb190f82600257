// The dependency resolver: which nodes may run. It knows ids only, neither files nor what is in a
// node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/feeder/id_map.hpp"
#include "core/feeder/id_set.hpp"

namespace chakra {

// Nodes that can never run (kDeadlock), or a call that makes no sense for a node's state (kUse).
class FeedError : public std::runtime_error {
   public:
    enum Kind { kDeadlock, kUse };
    FeedError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
    Kind kind() const { return kind_; }

   private:
    Kind kind_;
};

// The life of a node:
//
//     add ──► waiting ──► ready ──take──► taken ──done──► finished
//                           ▲───push_back───┘
//
// A node is ready once every dependency is finished. Nodes come in any order: a dependency that has
// not been added is kept until it is, or until the end of input, when `missing` lists it. An edge
// given twice counts twice and is resolved twice, so it acts like one. A node that depends on
// itself waits forever and is a cycle of one. Among ready nodes `take` gives the lowest id.
//
// Memory is held for nodes that are not finished and for the edges into them; a finished node is a
// bit in an IdSet. Every call costs amortised constant time per edge, `take` a logarithm of what is
// ready.
class Frontier {
   public:
    using Slot =
        uint32_t;  // a small number that stands for an unfinished node, used again after it

    struct Missing {
        uint64_t id;
        std::vector<uint64_t> waiters;
    };

    // Throws FormatError if the id was added before.
    Slot add(uint64_t id, std::span<const uint64_t> deps);

    std::optional<Slot> take();
    // These throw FeedError(kUse) if the node is not in the state they start from.
    Slot take(uint64_t id);
    void push_back(uint64_t id);
    Slot done(uint64_t id);
    // Takes and finishes ready nodes until there are none; returns how many there were.
    size_t drain();

    // The slot of a node that was added and is not finished.
    std::optional<Slot> find(uint64_t id) const;
    uint64_t id_of(Slot slot) const { return nodes_[slot].id; }
    bool is_taken(Slot slot) const { return nodes_[slot].state == kTaken; }
    bool is_finished(uint64_t id) const { return finished_.contains(id); }
    // Ascending, each once: those added so far that wait for this node.
    std::vector<uint64_t> children(Slot slot) const;
    std::vector<uint64_t> ready_ids() const;

    size_t waiting() const { return count_[kWaiting]; }
    size_t ready() const { return count_[kReady]; }
    size_t in_flight() const { return count_[kTaken]; }
    size_t open() const { return waiting() + ready() + in_flight(); }

    // For the end of input: dependencies that were never added (ascending), each with some waiters.
    size_t missing_count() const { return count_[kUnseen]; }
    std::vector<Missing> missing(size_t cap, size_t waiter_cap) const;
    // Lets the nodes run that wait only for what is missing.
    void release_missing();
    // The ids of a cycle from the lowest on: each is waited for by the next, the last by the first.
    // Empty if the waiting nodes have no cycle.
    std::vector<uint64_t> cycle() const;

   private:
    enum State : uint8_t { kFree, kUnseen, kWaiting, kReady, kTaken, kStates };
    enum class Mark : uint8_t { kNew, kOnPath, kAcyclic };
    static constexpr uint32_t kNone = 0xffffffff;

    struct Node {
        uint64_t id;
        uint32_t pending;      // unfinished dependencies
        uint32_t first_child;  // list in edges_; of a free node, the next free one
        State state;
        bool queued;  // has an entry in heap_
    };
    struct Edge {
        Slot child;
        uint32_t next;
    };
    struct Entry {
        uint64_t id;
        Slot slot;
        bool operator>(const Entry& other) const { return id > other.id; }
    };

    Slot slot_for(uint64_t id);
    Slot allocate(uint64_t id);
    void link(Slot parent, Slot child);
    void set_state(Slot slot, State state);
    void make_ready(Slot slot);
    void resolve_children(Slot slot);
    void release(Slot slot);
    bool is_live(const Entry& entry) const;
    void drop_stale_entries();
    Slot require(uint64_t id, State state, const char* verb) const;
    std::string describe(uint64_t id) const;
    std::vector<uint64_t> cycle_below(Slot root, std::vector<Mark>& marks) const;
    std::vector<uint64_t> ids_from(const std::vector<Edge>& path, Slot first) const;

    IdMap<uint32_t> slots_;  // id -> slot + 1
    std::vector<Node> nodes_;
    std::vector<Edge> edges_;
    std::vector<Entry> heap_;
    IdSet finished_;
    Slot free_node_ = kNone;
    uint32_t free_edge_ = kNone;
    size_t count_[kStates] = {};
};

}  // namespace chakra
