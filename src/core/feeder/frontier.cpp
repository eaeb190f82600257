#include "core/feeder/frontier.hpp"

#include <algorithm>
#include <functional>

#include "core/error.hpp"

namespace chakra {

Frontier::Slot Frontier::add(uint64_t id, std::span<const uint64_t> deps) {
    if (finished_.contains(id))
        throw FormatError("node id " + std::to_string(id) + " appears twice");
    Slot slot = slot_for(id);
    if (nodes_[slot].state != kUnseen)
        throw FormatError("node id " + std::to_string(id) + " appears twice");
    set_state(slot, kWaiting);
    for (uint64_t dep : deps)
        if (!finished_.contains(dep)) link(slot_for(dep), slot);
    if (nodes_[slot].pending == 0) make_ready(slot);
    return slot;
}

std::optional<Frontier::Slot> Frontier::take() {
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        Entry entry = heap_.back();
        heap_.pop_back();
        if (nodes_[entry.slot].id != entry.id) continue;
        nodes_[entry.slot].queued = false;
        if (nodes_[entry.slot].state != kReady) continue;
        set_state(entry.slot, kTaken);
        return entry.slot;
    }
    return std::nullopt;
}

// The entry stays in the heap, where `take` passes over it: finding it would take linear time.
Frontier::Slot Frontier::take(uint64_t id) {
    Slot slot = require(id, kReady, "take");
    set_state(slot, kTaken);
    if (heap_.size() > 2 * ready() + 64) drop_stale_entries();
    return slot;
}

void Frontier::push_back(uint64_t id) {
    make_ready(require(id, kTaken, "push back"));
}

Frontier::Slot Frontier::done(uint64_t id) {
    Slot slot = require(id, kTaken, "finish");
    finished_.insert(id);
    resolve_children(slot);
    release(slot);
    return slot;
}

size_t Frontier::drain() {
    size_t n = 0;
    for (; auto slot = take(); ++n) done(id_of(*slot));
    return n;
}

std::optional<Frontier::Slot> Frontier::find(uint64_t id) const {
    const uint32_t* known = slots_.find(id);
    if (!known || nodes_[*known - 1].state == kUnseen) return std::nullopt;
    return *known - 1;
}

std::vector<uint64_t> Frontier::children(Slot slot) const {
    std::vector<uint64_t> ids;
    for (uint32_t e = nodes_[slot].first_child; e != kNone; e = edges_[e].next)
        ids.push_back(nodes_[edges_[e].child].id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

std::vector<uint64_t> Frontier::ready_ids() const {
    std::vector<uint64_t> ids;
    ids.reserve(ready());
    for (const Entry& entry : heap_)
        if (is_live(entry)) ids.push_back(entry.id);
    std::sort(ids.begin(), ids.end());
    return ids;
}

std::vector<Frontier::Missing> Frontier::missing(size_t cap, size_t waiter_cap) const {
    std::vector<Missing> found;
    for (Slot slot = 0; slot < nodes_.size(); ++slot)
        if (nodes_[slot].state == kUnseen) found.push_back({nodes_[slot].id, {}});
    std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.id < b.id; });
    if (found.size() > cap) found.resize(cap);
    for (Missing& each : found) {
        each.waiters = children(*slots_.find(each.id) - 1);
        if (each.waiters.size() > waiter_cap) each.waiters.resize(waiter_cap);
    }
    return found;
}

void Frontier::release_missing() {
    for (Slot slot = 0; slot < nodes_.size(); ++slot) {
        if (nodes_[slot].state != kUnseen) continue;
        resolve_children(slot);
        release(slot);
    }
}

std::vector<uint64_t> Frontier::cycle() const {
    std::vector<Mark> marks(nodes_.size(), Mark::kNew);
    for (Slot root = 0; root < nodes_.size(); ++root) {
        if (marks[root] != Mark::kNew || nodes_[root].state != kWaiting) continue;
        std::vector<uint64_t> ids = cycle_below(root, marks);
        if (ids.empty()) continue;
        std::rotate(ids.begin(), std::min_element(ids.begin(), ids.end()), ids.end());
        return ids;
    }
    return {};
}

// Depth-first over the edges to children, without recursion: a cycle may be a million nodes long.
std::vector<uint64_t> Frontier::cycle_below(Slot root, std::vector<Mark>& marks) const {
    std::vector<Edge> path;  // a node, and its next edge to follow
    auto enter = [&](Slot slot) {
        marks[slot] = Mark::kOnPath;
        path.push_back({slot, nodes_[slot].first_child});
    };
    enter(root);
    while (!path.empty()) {
        auto& [slot, edge] = path.back();
        if (edge == kNone) {
            marks[slot] = Mark::kAcyclic;
            path.pop_back();
            continue;
        }
        Slot child = edges_[edge].child;
        edge = edges_[edge].next;
        if (marks[child] == Mark::kOnPath) return ids_from(path, child);
        if (marks[child] == Mark::kNew) enter(child);
    }
    return {};
}

std::vector<uint64_t> Frontier::ids_from(const std::vector<Edge>& path, Slot first) const {
    std::vector<uint64_t> ids;
    auto step = std::find_if(path.begin(), path.end(), [&](auto& s) { return s.child == first; });
    for (; step != path.end(); ++step) ids.push_back(nodes_[step->child].id);
    return ids;
}

Frontier::Slot Frontier::slot_for(uint64_t id) {
    uint32_t& known = slots_[id];
    if (known == 0) known = allocate(id) + 1;
    return known - 1;
}

Frontier::Slot Frontier::allocate(uint64_t id) {
    Slot slot = free_node_;
    if (slot != kNone) {
        free_node_ = nodes_[slot].first_child;
    } else {
        if (nodes_.size() >= kNone - 1) throw FormatError("more than 4 billion nodes are waiting");
        slot = static_cast<Slot>(nodes_.size());
        nodes_.emplace_back();
    }
    nodes_[slot] = {id, 0, kNone, kUnseen, false};
    ++count_[kUnseen];
    return slot;
}

void Frontier::link(Slot parent, Slot child) {
    uint32_t edge = free_edge_;
    if (edge != kNone) {
        free_edge_ = edges_[edge].next;
    } else {
        if (edges_.size() >= kNone) throw FormatError("more than 4 billion edges are waiting");
        edge = static_cast<uint32_t>(edges_.size());
        edges_.emplace_back();
    }
    edges_[edge] = {child, nodes_[parent].first_child};
    nodes_[parent].first_child = edge;
    ++nodes_[child].pending;
}

void Frontier::set_state(Slot slot, State state) {
    --count_[nodes_[slot].state];
    ++count_[state];
    nodes_[slot].state = state;
}

void Frontier::make_ready(Slot slot) {
    set_state(slot, kReady);
    if (nodes_[slot].queued) return;
    nodes_[slot].queued = true;
    heap_.push_back({nodes_[slot].id, slot});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void Frontier::resolve_children(Slot slot) {
    uint32_t edge = nodes_[slot].first_child;
    while (edge != kNone) {
        Slot child = edges_[edge].child;
        uint32_t next = edges_[edge].next;
        edges_[edge].next = free_edge_;
        free_edge_ = edge;
        if (--nodes_[child].pending == 0) make_ready(child);
        edge = next;
    }
}

void Frontier::release(Slot slot) {
    slots_.erase(nodes_[slot].id);
    set_state(slot, kFree);
    nodes_[slot].first_child = free_node_;
    free_node_ = slot;
}

bool Frontier::is_live(const Entry& entry) const {
    return nodes_[entry.slot].id == entry.id && nodes_[entry.slot].state == kReady;
}

void Frontier::drop_stale_entries() {
    std::erase_if(heap_, [&](const Entry& entry) {
        if (is_live(entry)) return false;
        if (nodes_[entry.slot].id == entry.id) nodes_[entry.slot].queued = false;
        return true;
    });
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

Frontier::Slot Frontier::require(uint64_t id, State state, const char* verb) const {
    auto slot = find(id);
    if (slot && nodes_[*slot].state == state) return *slot;
    throw FeedError(FeedError::kUse, std::string("cannot ") + verb + " node " + std::to_string(id) +
                                         ": it is " + describe(id));
}

std::string Frontier::describe(uint64_t id) const {
    if (finished_.contains(id)) return "finished already";
    auto slot = find(id);
    if (!slot) return "not a node that was read";
    switch (nodes_[*slot].state) {
        case kReady: return "ready and not taken";
        case kTaken: return "taken already";
        default: return "waiting for other nodes";
    }
}

}  // namespace chakra
