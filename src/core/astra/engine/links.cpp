// Links with congestion: a whole message at a time, first come first served, stored and forwarded.
#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

void Engine::count(Rank from, uint32_t dim, uint64_t bytes) {
    size_t row = folding_.actor_of[from] * topology_.dims() + dim;
    if (links_.empty()) {
        links_.resize(actors_.size() * topology_.dims());
        for (size_t a = 0; a < actors_.size(); ++a) {
            for (size_t k = 0; k < topology_.dims(); ++k) {
                links_[a * topology_.dims() + k].use.key = actors_[a].rank * topology_.dims() + k;
            }
        }
    }
    ++links_[row].use.messages;
    links_[row].use.bytes += bytes;
}

uint32_t Engine::link_named(uint64_t key) {
    auto [it, fresh] = link_rows_.try_emplace(key, static_cast<uint32_t>(links_.size()));
    if (fresh) {
        links_.emplace_back();
        links_.back().use.key = key;
    }
    return it->second;
}

// The parcel's next link; its place is moved to the link's far end. Owners are named by the rank
// that stands for them, so that folded messages meet on the links they would meet on unfolded.
uint32_t Engine::link_for(Parcel& p) {
    uint64_t n = topology_.ranks();
    auto owner = [&](Rank r) -> uint64_t { return folding_.representative[folding_.actor_of[r]]; };
    Rank at = p.at;
    switch (topology_.dim(0).shape) {
        case Shape::FullyConnected: p.at = p.to; return link_named(owner(at) * n + p.to);
        case Shape::Switch:
            if (!p.at_switch) {
                p.at_switch = true;
                return link_named(owner(at) * 2);
            }
            p.at = p.to;
            return link_named(owner(p.to) * 2 + 1);
        default: break;
    }
    uint64_t clockwise = (p.to + n - at) % n;
    bool back = clockwise > n - clockwise;
    p.at = static_cast<Rank>((at + (back ? n - 1 : 1)) % n);
    return link_named(owner(at) * 2 + (back ? 1 : 0));
}

void Engine::put_on_link(uint32_t parcel) {
    uint32_t link = link_for(parcels_[parcel]);
    Link& l = links_[link];
    if (!l.busy) return start_link(link, parcel);
    parcels_[parcel].next = kNone;
    if (l.head == kNone) {
        l.head = parcel;
    } else {
        parcels_[l.tail].next = parcel;
    }
    l.tail = parcel;
}

// The arrival is inserted before the link becomes free.
void Engine::start_link(uint32_t link, uint32_t parcel) {
    Link& l = links_[link];
    const Parcel& p = parcels_[parcel];
    Tick busy = topology_.busy(p.bytes);
    l.busy = true;
    ++l.use.messages;
    l.use.bytes += p.bytes;
    l.use.busy += busy;
    Tick there = calendar_.now() + topology_.pass(p.bytes);
    bool through = p.at == p.to && !(p.at_switch && (l.use.key & 1) == 0);
    if (through) {
        calendar_.insert(there, p.event);
        parcels_.give(parcel);
    } else {
        Event e = p.event;
        e.kind = EventKind::Hop;
        e.item = parcel;
        calendar_.insert(there, e);
    }
    Event free;
    free.kind = EventKind::LinkFree;
    free.actor = link;
    calendar_.insert(calendar_.now() + busy, free);
}

void Engine::link_free(uint32_t link) {
    Link& l = links_[link];
    l.busy = false;
    if (l.head == kNone) return;
    uint32_t parcel = l.head;
    l.head = parcels_[parcel].next;
    start_link(link, parcel);
}

// Folded, messages that meet at a switch queue for the receiver's link in an order that may depend
// on rank numbers. That is remembered: it must not matter which of them comes first.
void Engine::hop(const Event& e) {
    if (folding_.folded) {
        Parcel& p = parcels_[e.item];
        uint32_t actor = folding_.actor_of[p.to];
        uint32_t down = link_named(uint64_t{folding_.representative[actor]} * 2 + 1);
        uint64_t what = purpose(e);
        auto& uncertain = actors_[actor].uncertain;
        if (!watch(links_[down].meeting, e, what) &&
            (uncertain.empty() || uncertain.back() != what)) {
            uncertain.push_back(what);
        }
        p.event.from = ~uint64_t{0};  // from now on the downlink inserts it, whoever sent it
    }
    put_on_link(e.item);
}

}  // namespace chakra::astra
