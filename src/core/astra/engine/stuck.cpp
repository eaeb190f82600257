// When nothing can happen any more and some rank has not finished: who waits for what.
#include <algorithm>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

namespace {

constexpr size_t kNamed = 3;  // ranks named in a message; the rest are counted

}  // namespace

std::string Engine::explain() const {
    auto waits = [&](uint32_t a) { return !actors_[a].done; };
    auto waiting = std::count_if(folding_.actor_of.begin(), folding_.actor_of.end(), waits);
    std::string text = std::to_string(waiting) + " of " + std::to_string(program_.ranks()) +
                       " ranks never finish: ";
    size_t named = 0;
    for (uint32_t a = 0; a < actors_.size() && named < kNamed; ++a) {
        if (actors_[a].done) continue;
        if (named++ > 0) text += "; ";
        text += explain_actor(a);
    }
    if (static_cast<size_t>(waiting) > named) text += "; …";
    return text;
}

std::string Engine::explain_actor(uint32_t a) const {
    const Actor& actor = actors_[a];
    const Body& body = *actor.body;
    if (actor.coll.active) return explain_collective(a);
    for (uint32_t i = 0; i < body.size(); ++i) {
        if (timelines_[a].start[i] < 0 || timelines_[a].end[i] >= 0) continue;
        std::string text = describe(a, i);
        if (body.kind[i] == Kind::Recv) {
            const Op& op = body.ops[body.op[i]];
            return text + " waits for " + std::to_string(op.bytes) + " bytes with tag " +
                   std::to_string(op.tag) + " from rank " + std::to_string(op.peer) +
                   ", which are never sent";
        }
        if (body.kind[i] == Kind::Send) {
            const Op& op = body.ops[body.op[i]];
            return text + " waits for rank " + std::to_string(op.peer) + " to post a receive of " +
                   std::to_string(op.bytes) + " bytes with tag " + std::to_string(op.tag) +
                   ", which never happens";
        }
        return text + " waits for a message that is never sent";
    }
    return explain_idle(a);
}

std::string Engine::explain_idle(uint32_t a) const {
    const Actor& actor = actors_[a];
    std::string text = "rank " + std::to_string(actor.rank) + " stops with ready nodes";
    if (actor.zero_time_node == kNone) return text;
    return describe(a, actor.zero_time_node) +
           " takes no time and nothing else is in flight, so ASTRA-sim never looks at the nodes "
           "that wait for it; give it a duration or remove it";
}

std::string Engine::explain_collective(uint32_t a) const {
    const Actor& actor = actors_[a];
    const Collective& coll = actor.coll;
    std::string text = describe(a, coll.node);
    for (uint32_t c = 0; c < coll.chunks.size(); ++c) {
        const Chunk& chunk = coll.chunks[c];
        const Phase& phase = phase_of(actor, chunk);
        bool waits = phase.algo == Algo::Tree ? chunk.posted != 0 : chunk.sent > chunk.received;
        if (!waits) continue;
        text += " waits in chunk " + std::to_string(c) + ", phase " + std::to_string(chunk.phase);
        if (phase.algo == Algo::Tree) return text + " (doubleBinaryTree), for a neighbour";
        Rank peer = member(actor, chunk, source(phase, chunk, chunk.received));
        return text + ", for a message from rank " + std::to_string(peer) + ", " +
               explain_peer(peer, coll.group);
    }
    return text +
           " has chunks that wait for each other's queues; allow more active chunks or queues";
}

std::string Engine::explain_peer(Rank rank, uint32_t group) const {
    uint32_t a = folding_.actor_of[rank];
    const Actor& peer = actors_[a];
    uint32_t slot = peer.coll.slot;
    uint32_t waits_in = !folding_.folded || slot == 0 ? slot : folding_.slots[rank][slot - 1];
    if (peer.done) {
        return "which finished at tick " + std::to_string(timelines_[a].finished) +
               " without a matching collective of " + group_name(group);
    }
    if (peer.coll.active && waits_in == group) return "which waits in the same group";
    if (peer.coll.active) return "which waits in " + group_name(waits_in);
    return "which never reaches a matching collective of " + group_name(group);
}

// ASTRA-sim does not notice a message that nobody takes.
void Engine::require_all_received() const {
    const Key* key = mailbox_.left_over([](const Key& k) { return (k.tag & 0xffffffff) == 0; });
    if (key == nullptr) return;
    Rank to = actors_[key->to].rank;
    throw SimulationError(std::to_string(key->size) + " bytes with tag " +
                              std::to_string(key->tag >> 32) + " are sent to rank " +
                              std::to_string(to) +
                              ", which never receives them; add the receive, or give --lenient",
                          true);
}

// A rank with a dependency cycle ends early without a word in ASTRA-sim.
void Engine::require_all_ran() const {
    for (uint32_t a = 0; a < actors_.size(); ++a) {
        const Actor& actor = actors_[a];
        if (actor.ran == actor.body->size()) continue;
        std::string text;
        size_t named = 0;
        for (uint32_t i = 0; i < actor.body->size() && named < kNamed; ++i) {
            if (timelines_[a].start[i] >= 0) continue;
            text += (named++ > 0 ? ", " : "") + std::to_string(actor.body->ids[i]);
        }
        throw SimulationError("rank " + std::to_string(actor.rank) + ": " +
                                  std::to_string(actor.body->size() - actor.ran) +
                                  " nodes never run (" + text +
                                  ", …): they wait for each other in a dependency cycle",
                              true);
    }
}

}  // namespace chakra::astra
