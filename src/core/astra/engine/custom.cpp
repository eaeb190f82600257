// Collectives given as graphs: the member at position p runs graph p; its ranks are positions.
#include <algorithm>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

void Engine::start_custom(uint32_t a, uint32_t node, const Custom& custom, const Op& op) {
    Actor& actor = actors_[a];
    uint32_t me = position_in(a, node, op.group);
    if (me >= custom.bodies.size() || custom.bodies[me] == nullptr) {
        fail(a, node, "the custom collective has no graph for position " + std::to_string(me));
    }
    const Body& body = *custom.bodies[me];
    actor.coll.node = node;
    actor.coll.group = op.group;
    actor.custom.body = &body;
    actor.custom.missing = body.parents;
    actor.custom.in_flight = 0;
    std::vector<uint32_t> roots;
    for (uint32_t i = 0; i < body.size(); ++i) {
        if (body.parents[i] == 0) roots.push_back(i);
    }
    issue_custom(a, roots);
    if (actor.custom.in_flight == 0) {
        fail(a, node,
             "the custom collective's graph for position " + std::to_string(me) +
                 " has nothing to run");
    }
}

void Engine::issue_custom(uint32_t a, const std::vector<uint32_t>& nodes) {
    actors_[a].custom.in_flight += static_cast<uint32_t>(nodes.size());
    for (uint32_t node : nodes) issue_custom_node(a, node);
}

void Engine::issue_custom_node(uint32_t a, uint32_t node) {
    const Actor& actor = actors_[a];
    const Body& body = *actor.custom.body;
    Endpoint me{Endpoint::What::Custom, 0, a, node, 0};
    Kind kind = body.kind[node];
    if (kind == Kind::Compute) {
        return local(a, body.replay(node), {kNone, LocalKind::Custom, node, 0});
    }
    std::string place = "node " + std::to_string(body.ids[node]) + " of its custom collective ";
    if (kind != Kind::Send && kind != Kind::Recv) {
        fail(a, actor.coll.node, place + "is neither a send, a receive nor compute");
    }
    const Op& op = body.ops[body.op[node]];
    const auto& members = program_.groups[actor.coll.group].members;
    if (op.peer >= members.size() || members[op.peer] == actor.rank) {
        fail(a, actor.coll.node,
             place + "names position " + std::to_string(op.peer) + " of a group of " +
                 std::to_string(members.size()));
    }
    Rank peer = members[op.peer];
    if (kind == Kind::Send) {
        send(me, message_key(actor.rank, peer, op.tag, op.bytes), actor.rank, peer, op.bytes,
             topology_.difference(peer, actor.rank));
    } else {
        receive(me, message_key(peer, actor.rank, op.tag, op.bytes), peer);
    }
}

void Engine::custom_completed(uint32_t a, uint32_t node) {
    Actor& actor = actors_[a];
    const Body& body = *actor.custom.body;
    std::vector<uint32_t> freed;
    for (uint32_t i = body.first_child[node]; i < body.first_child[node + 1]; ++i) {
        if (--actor.custom.missing[body.children[i]] == 0) freed.push_back(body.children[i]);
    }
    --actor.custom.in_flight;
    std::sort(freed.begin(), freed.end());
    issue_custom(a, freed);
    if (actor.custom.in_flight > 0) return;
    actor.custom.body = nullptr;
    completed(a, actor.coll.node);
}

}  // namespace chakra::astra
