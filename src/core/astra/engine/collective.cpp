// A native collective on one actor: chunks move through their phases' queues, and within a phase
// messages are prepared, held for the endpoint's time, and sent when there is credit.
#include <algorithm>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

namespace {

// A queue choice also says which tree a chunk takes: they alternate as chunks are made.
constexpr uint16_t kMaxTree = 0x8000;

}  // namespace

const Phase& Engine::phase_of(const Actor& actor, const Chunk& chunk) const {
    return planner_[actor.coll.plan].phases[chunk.phase];
}

uint32_t Engine::position(const Actor& actor, const Phase& phase) const {
    if (phase.subgroup) return actor.coll.me;
    return actor.rank / phase.stride % phase.size;
}

Rank Engine::member(const Actor& actor, const Chunk& chunk, uint32_t position) const {
    const Phase& phase = phase_of(actor, chunk);
    if (phase.subgroup) return program_.groups[actor.coll.group].members[position];
    return actor.rank + (position - chunk.me) * phase.stride;  // wraps as unsigned does
}

uint32_t Engine::position_in(uint32_t a, uint32_t node, uint32_t group) const {
    const auto& members = program_.groups[group].members;
    Rank rank = actors_[a].rank;
    if (group == 0) return rank;
    auto it = std::find(members.begin(), members.end(), rank);
    if (it == members.end()) {
        fail(a, node, "the rank is not a member of " + group_name(group));
    }
    return static_cast<uint32_t>(it - members.begin());
}

// A group of all ranks runs on the network's dimensions; a smaller one as a dimension of its own.
uint32_t Engine::plan_of(uint32_t a, uint32_t node, const Op& op) {
    size_t size = program_.groups[op.group].members.size();
    bool whole = size == topology_.ranks();
    uint32_t dims = op.group != 0 && whole ? kNone : op.dims;
    try {
        return planner_.plan(op.coll, op.bytes, dims, whole ? 0 : static_cast<uint32_t>(size));
    } catch (const SimulationError& e) {
        fail(a, node, e.what());
    }
}

// Tags count up by group, so that members name the same collective alike.
uint32_t Engine::take_tags(Actor& actor, uint32_t group, uint32_t count) {
    auto tag = std::find_if(actor.tags.begin(), actor.tags.end(),
                            [&](const auto& t) { return t.first == group; });
    if (tag == actor.tags.end()) tag = actor.tags.insert(tag, {group, 0});
    uint32_t first = tag->second;
    tag->second += count;
    return first;
}

void Engine::start_native(uint32_t a, uint32_t node, const Op& op) {
    Actor& actor = actors_[a];
    Collective& coll = actor.coll;
    coll.me = position_in(a, node, op.group);
    coll.plan = plan_of(a, node, op);
    const Plan& plan = planner_[coll.plan];
    coll.active = true;
    coll.node = node;
    coll.group = op.group;
    coll.slot = slot_at(actor.rank, op.group);
    coll.done = 0;
    coll.first_tag = take_tags(actor, op.group, plan.chunks);
    coll.chunks.assign(plan.chunks, {});
    coll.queues.resize(plan.chunks * plan.phases.size());
    for (uint32_t c = 0; c < plan.chunks; ++c) {
        choose_queues(actor, c, plan);
        enter_phase(a, c);
        start_waiting(a, actor.coll.chunks[c].queue);
    }
}

void Engine::choose_queues(Actor& actor, uint32_t chunk, const Plan& plan) {
    for (size_t p = 0; p < plan.phases.size(); ++p) {
        actor.coll.queues[chunk * plan.phases.size() + p] = choose_queue(actor, plan.phases[p]);
    }
}

// Round robin over all queues of the dimension, over its first half, or over its second half.
uint16_t Engine::choose_queue(Actor& actor, const Phase& phase) {
    uint32_t q = system_.queues;
    Rota& rota = actor.rota[phase.dim];
    uint32_t pick = 0;
    if (phase.rule == QueueRule::Any) {
        pick = rota.any;
        rota.any = (rota.any + 1) % q;
    } else if (phase.rule == QueueRule::First) {
        pick = rota.first;
        rota.first = (rota.first + 1) % std::max(q / 2, 1u);
    } else {
        pick = rota.last;
        rota.last = rota.last + 1 == q ? q / 2 : rota.last + 1;
    }
    uint32_t flag = 0;
    if (phase.algo == Algo::Tree) {
        flag = rota.max_tree ? kMaxTree : 0;
        rota.max_tree = !rota.max_tree;
    }
    return static_cast<uint16_t>((phase.dim * q + pick) | flag);
}

// The chunk's state is fresh and it stands last in the phase's queue.
void Engine::enter_phase(uint32_t a, uint32_t c) {
    Actor& actor = actors_[a];
    Collective& coll = actor.coll;
    const Plan& plan = planner_[coll.plan];
    Chunk& chunk = coll.chunks[c];
    const Phase& phase = plan.phases[chunk.phase];
    uint16_t index = chunk.phase;
    chunk = {};
    chunk.phase = index;
    chunk.me = position(actor, phase);
    uint16_t choice = coll.queues[c * plan.phases.size() + index];
    chunk.queue = choice & ~kMaxTree;
    chunk.max_tree = (choice & kMaxTree) != 0;
    uint32_t q = system_.queues;
    bool second_half = q > 1 && chunk.queue % q >= q / 2;
    chunk.backward = phase.rule == QueueRule::Last || (phase.rule == QueueRule::Any && second_half);
    actor.queues[chunk.queue].waiting.push_back(c);
}

void Engine::start_waiting(uint32_t a, uint32_t q) {
    Queue& queue = actors_[a].queues[q];
    while (queue.running < concurrent_ && queue.head < queue.waiting.size()) {
        uint32_t c = queue.waiting[queue.head++];
        if (queue.head == queue.waiting.size()) {
            queue.waiting.clear();
            queue.head = 0;
        }
        ++queue.running;
        start_chunk(a, c);
    }
}

void Engine::start_chunk(uint32_t a, uint32_t c) {
    const Phase& phase = phase_of(actors_[a], actors_[a].coll.chunks[c]);
    if (phase.algo == Algo::Tree) return start_tree(a, c);
    for (uint32_t i = 0; i < phase.window; ++i) prepare(a, c);
}

void Engine::prepare(uint32_t a, uint32_t c) {
    Chunk& chunk = actors_[a].coll.chunks[c];
    const Phase& phase = phase_of(actors_[a], chunk);
    Tick reduction = phase.reduction(chunk.prepared++);
    local(a, phase.endpoint, {kNone, LocalKind::Pass, c, reduction});
}

void Engine::arrived(uint32_t a, uint32_t c) {
    Chunk& chunk = actors_[a].coll.chunks[c];
    if (phase_of(actors_[a], chunk).algo == Algo::Tree) return tree_arrived(a, c);
    ++chunk.received;
    prepare(a, c);
}

void Engine::pass_ended(uint32_t a, uint32_t c) {
    Chunk& chunk = actors_[a].coll.chunks[c];
    const Phase& phase = phase_of(actors_[a], chunk);
    if (phase.algo == Algo::Tree) return tree_pass_ended(a, c);
    ++chunk.credit;
    uint32_t half = phase.size - 1;
    bool second_half = phase.algo == Algo::Direct && phase.coll == Coll::AllReduce &&
                       phase.messages - chunk.sent <= half;
    if (second_half) {
        if (chunk.received < half) return;
        for (uint32_t i = 0; i < phase.window && try_send(a, c); ++i) {
        }
    } else {
        try_send(a, c);
    }
    if (chunk.sent == phase.messages && chunk.credit == phase.window) phase_ended(a, c);
}

bool Engine::try_send(uint32_t a, uint32_t c) {
    Chunk& chunk = actors_[a].coll.chunks[c];
    const Phase& phase = phase_of(actors_[a], chunk);
    if (chunk.sent == phase.messages || chunk.credit == 0 || chunk.sent == chunk.prepared) {
        return false;
    }
    --chunk.credit;
    send_item(a, c, chunk.sent++);
    return true;
}

// The k-th message's receiver.
uint32_t Engine::target(const Phase& phase, const Chunk& chunk, uint32_t item) const {
    if (phase.algo == Algo::HalvingDoubling) return chunk.me ^ phase.steps[item].mask;
    uint32_t n = phase.size;
    uint32_t distance = 1;
    if (phase.algo == Algo::Direct) distance = (item < n - 1 ? item : item % (n - 1)) + 1;
    uint32_t to = chunk.me + (chunk.backward ? n - distance : distance);
    return to < n ? to : to - n;
}

// The k-th receive's sender: the receiver's mirror image.
uint32_t Engine::source(const Phase& phase, const Chunk& chunk, uint32_t item) const {
    uint32_t to = target(phase, chunk, item);
    if (phase.algo == Algo::HalvingDoubling) return to;
    uint32_t n = phase.size;
    uint32_t ahead = to >= chunk.me ? to - chunk.me : to + n - chunk.me;
    return chunk.me >= ahead ? chunk.me - ahead : chunk.me + n - ahead;
}

void Engine::send_item(uint32_t a, uint32_t c, uint32_t item) {
    const Actor& actor = actors_[a];
    const Chunk& chunk = actor.coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    send_chunk(a, c, item, target(phase, chunk, item));
    post_chunk(a, c, item, source(phase, chunk, item));
}

// The last chunk's completion runs the workload before the chunk leaves its queue, as ASTRA-sim
// does; it may start the next collective, so nothing of this one is touched afterwards.
void Engine::phase_ended(uint32_t a, uint32_t c) {
    Actor& actor = actors_[a];
    Collective& coll = actor.coll;
    uint32_t old = coll.chunks[c].queue;
    bool last_phase = coll.chunks[c].phase + 1u == planner_[coll.plan].phases.size();
    if (last_phase) {
        if (++coll.done == coll.chunks.size()) {
            coll.active = false;
            completed(a, coll.node);
        }
        --actors_[a].queues[old].running;
        return start_waiting(a, old);
    }
    ++coll.chunks[c].phase;
    enter_phase(a, c);
    uint32_t joined = coll.chunks[c].queue;
    --actor.queues[old].running;
    start_waiting(a, old);
    start_waiting(a, joined);
}

}  // namespace chakra::astra
