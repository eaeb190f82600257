// Messages: naming them, carrying them, and matching them with receives.
//
// A chunk's message is named by (group, tag, phase, number); its receive is posted when the
// receiver sends its own message of that number, so "number < sent" says whether the receive is
// open. That equals ASTRA- sim's matching by (tag, source, size) in order, as long as both sides
// run the same plan, which is checked.
#include <algorithm>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

namespace {

constexpr uint64_t kNoticeBytes = 8192;
constexpr uint64_t kChunkSpace = 1;
constexpr uint64_t kNoticeSpace = 2;

bool same(const Phase& a, const Phase& b) {
    auto steps = [](const Step& x, const Step& y) {
        return x.mask == y.mask && x.bytes == y.bytes;
    };
    return a.algo == b.algo && a.coll == b.coll && a.size == b.size && a.stride == b.stride &&
           a.bytes == b.bytes && a.messages == b.messages &&
           std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), steps);
}

}  // namespace

bool Engine::agree(uint32_t plan, uint32_t other) const {
    if (plan == other) return true;
    const Plan& a = planner_[plan];
    const Plan& b = planner_[other];
    return a.chunks == b.chunks &&
           std::equal(a.phases.begin(), a.phases.end(), b.phases.begin(), b.phases.end(), same);
}

// Unfolded, a group is named by its row; folded, by the place it has among the rank's groups.
uint32_t Engine::slot_at(Rank rank, uint32_t group) const {
    if (!folding_.folded || group == 0) return group;
    const auto& slots = folding_.slots[rank];
    auto it = std::find(slots.begin(), slots.end(), group);
    return static_cast<uint32_t>(it - slots.begin()) + 1;
}

Key Engine::chunk_key(uint32_t actor, uint32_t slot, uint32_t tag, uint32_t phase,
                      uint32_t item) const {
    return {actor, slot, static_cast<uint64_t>(tag) << 32 | phase << 8 | kChunkSpace, item};
}

Key Engine::message_key(Rank from, Rank to, uint32_t tag, uint64_t bytes) const {
    return {folding_.actor_of[to], topology_.difference(to, from), static_cast<uint64_t>(tag) << 32,
            bytes};
}

// The sender as the receiver sees it: by distance, which is the same for all folded ranks. Never 0.
uint64_t Engine::channel(const Phase& phase, uint32_t slot, uint32_t from, uint32_t to) const {
    bool halving = phase.algo == Algo::HalvingDoubling;
    uint32_t distance = halving ? from ^ to : (from + phase.size - to) % phase.size;
    return static_cast<uint64_t>(slot + 1) << 40 | static_cast<uint64_t>(halving) << 39 |
           static_cast<uint64_t>(phase.dim) << 32 | distance;
}

void Engine::send_chunk(uint32_t a, uint32_t c, uint32_t item, uint32_t to) {
    const Actor& actor = actors_[a];
    const Collective& coll = actor.coll;
    const Chunk& chunk = coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    Rank target = member(actor, chunk, to);
    Event e;
    e.kind = EventKind::Chunk;
    e.phase = chunk.phase;
    e.actor = folding_.actor_of[target];
    e.slot = slot_at(target, coll.group);
    e.tag = coll.first_tag + c;
    e.item = item;
    e.plan = coll.plan;
    if (folding_.folded) e.from = channel(phase, e.slot, chunk.me, to);
    if (!system_.rendezvous) return transmit_chunk(actor, chunk, to, e);
    send({Endpoint::What::Chunk, chunk.phase, a, c, item},
         chunk_key(e.actor, e.slot, e.tag, e.phase, item), actor.rank, target,
         phase.message_bytes(item), e.from);
}

void Engine::transmit_chunk(const Actor& actor, const Chunk& chunk, uint32_t to,
                            const Event& event) {
    const Phase& phase = phase_of(actor, chunk);
    uint64_t bytes = phase.message_bytes(event.item);
    if (aware_ || phase.subgroup || phase.whole) {
        return transmit(actor.rank, member(actor, chunk, to), bytes, event);
    }
    // Members of a dimension differ in it alone, so there is no need to look for the difference.
    count(actor.rank, phase.dim, bytes);
    Tick delay = topology_.delay_along(phase.dim, chunk.me, to, bytes);
    calendar_.insert(calendar_.now() + delay, event);
}

void Engine::post_chunk(uint32_t a, uint32_t c, uint32_t item, uint32_t from) {
    const Actor& actor = actors_[a];
    const Collective& coll = actor.coll;
    const Chunk& chunk = coll.chunks[c];
    Endpoint me{Endpoint::What::Chunk, chunk.phase, a, c, item};
    Key key = chunk_key(a, coll.slot, coll.first_tag + c, chunk.phase, item);
    if (system_.rendezvous) {
        return receive(me, key, member(actor, chunk, from));
    }
    if (mailbox_.empty() || !mailbox_.take(key)) return;
    Event e;
    e.kind = EventKind::Matched;
    e.actor = a;
    e.item = waiters_.take({kNone, me, kNone});
    calendar_.insert(calendar_.now(), e);
}

void Engine::chunk_came(const Event& e) {
    Actor& actor = actors_[e.actor];
    Collective& coll = actor.coll;
    uint32_t c = e.tag - coll.first_tag;
    if (coll.active && coll.slot == e.slot && c < coll.chunks.size()) {
        if (!agree(e.plan, coll.plan)) {
            fail(e.actor, coll.node,
                 "another member runs a different collective (type, size or dimensions) at this "
                 "place of the group's order; make all members issue the same ones");
        }
        Chunk& chunk = coll.chunks[c];
        bool tree = phase_of(actor, chunk).algo == Algo::Tree;
        bool open = tree ? (chunk.posted >> e.item & 1) != 0 : e.item < chunk.sent;
        if (chunk.phase == e.phase && open) {
            if (tree) chunk.posted &= static_cast<uint8_t>(~(1u << e.item));
            return arrived(e.actor, c);
        }
    }
    const auto& uncertain = actor.uncertain;
    if (!uncertain.empty() &&
        std::find(uncertain.begin(), uncertain.end(), purpose(e)) != uncertain.end()) {
        throw NotFoldable(
            "messages of equal ranks queue for a link in an order that depends on rank "
            "numbers");
    }
    mailbox_.arrive(chunk_key(e.actor, e.slot, e.tag, e.phase, e.item), waiters_);
}

void Engine::send(const Endpoint& sender, const Key& key, Rank from, Rank to, uint64_t bytes,
                  uint64_t channel) {
    uint32_t letter = letters_.take({kNone, sender, key, from, to, bytes, channel});
    Waiter waiter{kNone, sender, letter};
    if (!system_.rendezvous) return matched(waiter);
    uint32_t w = waiters_.take(waiter);
    Key notice = key;
    notice.tag |= kNoticeSpace;
    await(notice, w, sender.actor);
}

void Engine::receive(const Endpoint& receiver, const Key& key, Rank from) {
    if (!system_.rendezvous) return post(receiver, key);
    Rank here = actors_[receiver.actor].rank;
    Event e;
    e.kind = EventKind::Notice;
    e.actor = folding_.actor_of[from];
    e.item = letters_.take({kNone, receiver, key, here, from, kNoticeBytes, 1});
    transmit(here, from, kNoticeBytes, e);
}

void Engine::post(const Endpoint& receiver, const Key& key) {
    uint32_t w = waiters_.take({kNone, receiver, kNone});
    await(key, w, receiver.actor);
}

// Where what is awaited has come already, the two are matched at once.
void Engine::await(const Key& key, uint32_t waiter, uint32_t actor) {
    if (!mailbox_.post(key, waiter, waiters_)) return;
    Event e;
    e.kind = EventKind::Matched;
    e.actor = actor;
    e.item = waiter;
    calendar_.insert(calendar_.now(), e);
}

// On delivery the sender is told before the receiver.
void Engine::letter_came(const Event& e) {
    Letter letter = letters_[e.item];
    letters_.give(e.item);
    if (folding_.folded) {
        Event own = e;
        own.actor = letter.sender.actor;
        own.from = 0;
        watch_actor(own);
    }
    sent(letter.sender);
    uint32_t w = mailbox_.arrive(letter.key, waiters_);
    if (w == kNone) return;
    Waiter waiter = waiters_[w];
    waiters_.give(w);
    matched(waiter);
}

// The receiver is ready: it posts its receive, then the sender, if it waits for this, sends.
void Engine::notice_came(const Event& e) {
    Letter letter = letters_[e.item];
    letters_.give(e.item);
    post(letter.sender, letter.key);
    Key notice = letter.key;
    notice.tag |= kNoticeSpace;
    uint32_t w = mailbox_.arrive(notice, waiters_);
    if (w == kNone) return;
    Waiter waiter = waiters_[w];
    waiters_.give(w);
    matched(waiter);
}

void Engine::matched(const Waiter& waiter) {
    const Endpoint& who = waiter.who;
    if (waiter.letter != kNone) {
        const Letter& letter = letters_[waiter.letter];
        Event e;
        e.kind = EventKind::Message;
        e.actor = folding_.actor_of[letter.to];
        e.item = waiter.letter;
        e.from = letter.channel + (uint64_t{1} << 63);
        return transmit(letter.from, letter.to, letter.bytes, e);
    }
    switch (who.what) {
        case Endpoint::What::Chunk: return arrived(who.actor, who.index);
        case Endpoint::What::Node: return completed(who.actor, who.index);
        case Endpoint::What::Custom: return custom_completed(who.actor, who.index);
    }
}

void Engine::sent(const Endpoint& sender) {
    if (sender.what == Endpoint::What::Node) completed(sender.actor, sender.index);
    if (sender.what == Endpoint::What::Custom) custom_completed(sender.actor, sender.index);
}

void Engine::transmit(Rank from, Rank to, uint64_t bytes, Event event) {
    if (aware_) {
        Parcel parcel;
        parcel.event = event;
        parcel.at = from;
        parcel.to = to;
        parcel.bytes = bytes;
        return put_on_link(parcels_.take(parcel));
    }
    count(from, topology_.first_difference(from, to), bytes);
    calendar_.insert(calendar_.now() + topology_.delay(from, to, bytes), event);
}

}  // namespace chakra::astra
