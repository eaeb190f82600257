#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

Engine::Engine(const Program& program, const System& system, const Network& network,
               const Memory& memory, const Folding& folding)
    : program_(program),
      system_(system),
      memory_(memory),
      folding_(folding),
      topology_(network),
      planner_(system, network),
      aware_(network.aware),
      concurrent_((system.active_chunks + system.queues - 1) / system.queues) {
    actors_.resize(folding.representative.size());
    timelines_.resize(actors_.size());
    unfinished_ = static_cast<uint32_t>(actors_.size());
    stores_.resize(memory.type == Memory::Type::PerNode ? memory.nodes : 1);
    for (uint32_t a = 0; a < actors_.size(); ++a) {
        Actor& actor = actors_[a];
        actor.rank = folding.representative[a];
        actor.body = &program.body(actor.rank);
        actor.missing = actor.body->parents;
        actor.queues.resize(topology_.dims() * system.queues);
        actor.rota.resize(topology_.dims());
        for (Rota& r : actor.rota) r.last = system.queues / 2;
        timelines_[a].start.assign(actor.body->size(), -1);
        timelines_[a].end.assign(actor.body->size(), -1);
    }
}

Outcome Engine::run() {
    for (uint32_t a = 0; a < actors_.size(); ++a) {
        for (uint32_t i = 0; i < actors_[a].body->size(); ++i) {
            if (actors_[a].missing[i] == 0) make_ready(actors_[a], i);
        }
    }
    for (uint32_t a = 0; a < actors_.size(); ++a) {
        walk(a);
        finish_if_idle(a);
    }
    Event e;
    while (calendar_.pop(e)) {
        ++events_;
        dispatch(e);
    }
    return outcome();
}

Outcome Engine::outcome() {
    Outcome out;
    if (unfinished_ > 0) {
        out.stuck = explain();
        if (!system_.lenient) throw SimulationError(out.stuck, true);
    } else if (!system_.lenient) {
        require_all_ran();
        require_all_received();
    }
    out.actors = std::move(timelines_);
    for (const Link& link : links_) out.links.push_back(link.use);
    out.events = events_;
    return out;
}

void Engine::dispatch(const Event& e) {
    if (folding_.folded && e.kind != EventKind::LinkFree && e.kind != EventKind::Hop) {
        watch_actor(e);
    }
    switch (e.kind) {
        case EventKind::Local: return run_local(e.actor, e.item);
        case EventKind::Chunk: return chunk_came(e);
        case EventKind::Message: return letter_came(e);
        case EventKind::Notice: return notice_came(e);
        case EventKind::Matched: {
            Waiter w = waiters_[e.item];
            waiters_.give(e.item);
            return matched(w);
        }
        case EventKind::LinkFree: return link_free(e.actor);
        case EventKind::Hop: return hop(e);
    }
}

// Joins the actor's list at that tick, or opens it and with it the place in the calendar.
void Engine::local(uint32_t a, Tick after, Local item) {
    Tick tick = calendar_.now() + after;
    item.next = kNone;
    uint32_t i = locals_.take(item);
    uint32_t list = actors_[a].open_lists;
    while (list != kNone && lists_[list].tick != tick) list = lists_[list].next;
    if (list != kNone) {
        locals_[lists_[list].tail].next = i;
        lists_[list].tail = i;
        return;
    }
    list = lists_.take({actors_[a].open_lists, tick, i, i});
    actors_[a].open_lists = list;
    Event e;
    e.kind = EventKind::Local;
    e.actor = a;
    e.item = list;
    calendar_.insert(tick, e);
}

// The list may grow while it runs: what is added for this very tick runs in the same go.
void Engine::run_local(uint32_t a, uint32_t list) {
    for (uint32_t i = lists_[list].head; i != kNone;) {
        Local item = locals_[i];
        run_local_item(a, item);
        uint32_t next = locals_[i].next;
        locals_.give(i);
        i = next;
    }
    uint32_t* at = &actors_[a].open_lists;
    while (*at != list) at = &lists_[*at].next;
    *at = lists_[list].next;
    lists_.give(list);
}

void Engine::run_local_item(uint32_t a, const Local& item) {
    switch (item.kind) {
        case LocalKind::Pass:
            if (item.extra < 0) return pass_ended(a, item.index);
            return local(a, item.extra, {kNone, LocalKind::PassEnd, item.index, 0});
        case LocalKind::PassEnd: return pass_ended(a, item.index);
        case LocalKind::Node: return completed(a, item.index);
        case LocalKind::Served: return served(item.index);
        case LocalKind::Custom: return custom_completed(a, item.index);
    }
}

// Two events at one tick that were inserted at one tick by different ranks run in an order that
// depends on rank numbers. It cannot matter when both do the same thing; else folding is not
// certain. False when the order of equal things is not certain.
bool Engine::watch(Meeting& m, const Event& e, uint64_t what) {
    if (m.tick != calendar_.now() || m.inserted != e.inserted) {
        m = {calendar_.now(), e.inserted, e.from, what, true, true};
        return true;
    }
    m.one_source = m.one_source && m.from == e.from;
    m.one_thing = m.one_thing && m.what == what;
    if (m.one_source) return true;
    if (m.one_thing) return false;
    throw NotFoldable("at tick " + std::to_string(calendar_.now()) +
                      " the order of two events depends on rank numbers");
}

// Only messages for the same phase of the same chunk do the same thing.
uint64_t Engine::purpose(const Event& e) {
    bool chunk = e.kind == EventKind::Chunk ||
                 (e.kind == EventKind::Hop && parcels_[e.item].event.kind == EventKind::Chunk);
    if (!chunk) return ++unlike_;
    return uint64_t{1} << 63 | static_cast<uint64_t>(e.slot & 0xffffff) << 39 |
           static_cast<uint64_t>(e.tag) << 7 | (e.phase & 0x7f);
}

void Engine::watch_actor(const Event& e) {
    watch(actors_[e.actor].meeting, e, purpose(e));
}

std::string Engine::group_name(uint32_t group) const {
    if (group == 0) return "all ranks";
    return "group " + std::to_string(program_.groups[group].id);
}

std::string Engine::describe(uint32_t a, uint32_t node) const {
    const Body& body = *actors_[a].body;
    static constexpr const char* names[] = {"invalid node", "metadata node", "memory load",
                                            "memory store", "compute",       "send",
                                            "receive",      "collective"};
    std::string text = "rank " + std::to_string(actors_[a].rank) + ", node " +
                       std::to_string(body.ids[node]) + " (";
    if (body.kind[node] == Kind::Collective && body.op[node] != kNone) {
        const Op& op = body.ops[body.op[node]];
        return text + name_of(op.coll) + " of " + std::to_string(op.bytes) + " bytes, " +
               group_name(op.group) + ")";
    }
    return text + names[static_cast<size_t>(body.kind[node])] + ")";
}

void Engine::fail(uint32_t a, uint32_t node, const std::string& why) const {
    throw SimulationError(describe(a, node) + ": " + why);
}

}  // namespace chakra::astra
