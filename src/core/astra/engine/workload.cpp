// Which node runs when: dependencies, three slots, and the walk over ready nodes in ascending id.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

namespace {

void push(std::vector<uint32_t>& heap, uint32_t node) {
    heap.push_back(node);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void pop(std::vector<uint32_t>& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
}

}  // namespace

// A CPU op, a GPU compute op and one of everything else at a time; receives need no slot.
Engine::Slot Engine::slot_of(const Body& body, uint32_t node) const {
    if (body.cpu[node]) return Slot::Cpu;
    if (body.kind[node] == Kind::Compute) return Slot::Gpu;
    return body.kind[node] == Kind::Recv ? Slot::Free : Slot::Comm;
}

void Engine::make_ready(Actor& actor, uint32_t node) {
    push(actor.ready[static_cast<size_t>(slot_of(*actor.body, node))], node);
}

uint32_t Engine::next_issuable(Actor& actor) const {
    uint32_t best = kNone;
    for (size_t s = 0; s < 4; ++s) {
        if (actor.ready[s].empty() || (s < 3 && actor.busy[s])) continue;
        best = std::min(best, actor.ready[s].front());
    }
    return best;
}

// Issues what was ready when the walk began. What zero-time nodes free meanwhile waits for the next
// completion, as in ASTRA-sim; metadata nodes, which it cannot run at all, free theirs at once.
void Engine::walk(uint32_t a) {
    Actor& actor = actors_[a];
    for (uint32_t node; (node = next_issuable(actor)) != kNone;) {
        Slot slot = slot_of(*actor.body, node);
        pop(actor.ready[static_cast<size_t>(slot)]);
        timelines_[a].start[node] = calendar_.now();
        if (slot != Slot::Free) actor.busy[static_cast<size_t>(slot)] = true;
        ++actor.in_flight;
        if (issue(a, node)) continue;
        timelines_[a].end[node] = calendar_.now();
        if (actor.body->kind[node] == Kind::Metadata) {
            std::vector<uint32_t> freed;
            release(actor, node, freed);
            for (uint32_t next : freed) make_ready(actor, next);
        } else {
            actor.zero_time_node = node;
            release(actor, node, actor.freed);
        }
    }
    for (uint32_t node : actor.freed) make_ready(actor, node);
    actor.freed.clear();
}

// False for a node that takes no time at all.
bool Engine::issue(uint32_t a, uint32_t node) {
    const Body& body = *actors_[a].body;
    Kind kind = body.kind[node];
    if (system_.replay_only) {
        issue_replay(a, node, !body.cpu[node]);
        return true;
    }
    bool comm = kind == Kind::Collective || kind == Kind::Send || kind == Kind::Recv;
    if (comm && body.cpu[node]) {
        fail(a, node, "a communication node cannot be a CPU op; set `is_cpu_op` to false");
    }
    switch (kind) {
        case Kind::Compute: return issue_compute(a, node);
        case Kind::Load:
        case Kind::Store: issue_memory(a, node); return true;
        case Kind::Send: issue_send(a, node); return true;
        case Kind::Recv: issue_recv(a, node); return true;
        case Kind::Collective: issue_collective(a, node); return true;
        default: return false;
    }
}

void Engine::issue_replay(uint32_t a, uint32_t node, bool gpu) {
    Tick time = actors_[a].body->replay(node);
    if (gpu) add_gpu_time(a, time);
    local(a, time, {kNone, LocalKind::Node, node, 0});
}

void Engine::add_gpu_time(uint32_t a, Tick time) {
    Tick& total = timelines_[a].gpu_time;
    if (time > kMaxTick - total)
        throw SimulationError("the GPU's time is too long to be counted in ns");
    total += time;
}

bool Engine::issue_compute(uint32_t a, uint32_t node) {
    const Body& body = *actors_[a].body;
    if (!system_.roofline || body.cpu[node]) {
        issue_replay(a, node, !body.cpu[node]);
        return true;
    }
    if (body.op[node] == kNone || !body.ops[body.op[node]].sized) {
        fail(a, node, "roofline needs the attributes `num_ops` and `tensor_size`");
    }
    const Op& op = body.ops[body.op[node]];
    if (op.tensor_size == 0) return false;
    double ops = static_cast<double>(op.num_ops);
    double intensity = ops / static_cast<double>(op.tensor_size);
    double perf = std::min(system_.local_mem_bw * 1e9 * intensity, system_.peak_perf * 1e12);
    double seconds = ops / perf;
    if (!std::isfinite(seconds)) {
        fail(a, node, "roofline gives no time: `num_ops`, `peak-perf` or `local-mem-bw` is 0");
    }
    Tick time = whole_ticks(seconds * 1e9);
    add_gpu_time(a, time);
    local(a, time, {kNone, LocalKind::Node, node, 0});
    return true;
}

const Op& Engine::message_of(uint32_t a, uint32_t node, const char* does, const char* attribute) {
    const Actor& actor = actors_[a];
    const Op& op = actor.body->ops[actor.body->op[node]];
    if (op.peer >= topology_.ranks() || op.peer == actor.rank) {
        fail(a, node,
             std::string(does) + " rank " + std::to_string(op.peer) + "; give another rank below " +
                 std::to_string(topology_.ranks()) + " as `" + attribute + "`");
    }
    return op;
}

void Engine::issue_send(uint32_t a, uint32_t node) {
    const Actor& actor = actors_[a];
    const Op& op = message_of(a, node, "sends to", "comm_dst");
    send({Endpoint::What::Node, 0, a, node, 0}, message_key(actor.rank, op.peer, op.tag, op.bytes),
         actor.rank, op.peer, op.bytes, topology_.difference(op.peer, actor.rank));
}

void Engine::issue_recv(uint32_t a, uint32_t node) {
    const Actor& actor = actors_[a];
    const Op& op = message_of(a, node, "receives from", "comm_src");
    receive({Endpoint::What::Node, 0, a, node, 0},
            message_key(op.peer, actor.rank, op.tag, op.bytes), op.peer);
}

void Engine::issue_collective(uint32_t a, uint32_t node) {
    const Actor& actor = actors_[a];
    const Op& op = actor.body->ops[actor.body->op[node]];
    if (op.coll == Coll::Broadcast) return issue_replay(a, node, false);
    auto by_node = system_.custom_by_node.find(actor.body->ids[node]);
    if (by_node != system_.custom_by_node.end()) {
        return start_custom(a, node, *by_node->second, op);
    }
    if (const auto& custom = system_.custom[static_cast<size_t>(op.coll)]) {
        return start_custom(a, node, *custom, op);
    }
    start_native(a, node, op);
}

void Engine::completed(uint32_t a, uint32_t node) {
    Actor& actor = actors_[a];
    timelines_[a].end[node] = calendar_.now();
    release(actor, node, actor.freed);
    for (uint32_t freed : actor.freed) make_ready(actor, freed);
    actor.freed.clear();
    walk(a);
    finish_if_idle(a);
}

void Engine::release(Actor& actor, uint32_t node, std::vector<uint32_t>& freed) {
    const Body& body = *actor.body;
    Slot slot = slot_of(body, node);
    if (slot != Slot::Free) actor.busy[static_cast<size_t>(slot)] = false;
    --actor.in_flight;
    ++actor.ran;
    for (uint32_t i = body.first_child[node]; i < body.first_child[node + 1]; ++i) {
        if (--actor.missing[body.children[i]] == 0) freed.push_back(body.children[i]);
    }
}

void Engine::finish_if_idle(uint32_t a) {
    Actor& actor = actors_[a];
    if (actor.done || actor.in_flight > 0) return;
    for (const auto& heap : actor.ready) {
        if (!heap.empty()) return;
    }
    actor.done = true;
    timelines_[a].finished = calendar_.now();
    --unfinished_;
}

uint32_t Engine::store_of(Rank rank) const {
    return memory_.type == Memory::Type::PerNode ? rank / memory_.npus_per_node : 0;
}

Tick Engine::memory_time(uint64_t bytes) const {
    // Bytes by bytes per ns, as ASTRA-sim divides: by way of seconds, 200,500 B at 50 GB/s would be
    // 4,009 ns.
    double bytes_per_ns = static_cast<double>(memory_.bandwidth) / 1e9;
    return static_cast<Tick>(memory_.latency) +
           whole_ticks(static_cast<double>(bytes) / bytes_per_ns);
}

void Engine::issue_memory(uint32_t a, uint32_t node) {
    const Body& body = *actors_[a].body;
    const Op& op = body.ops[body.op[node]];
    if (memory_.type == Memory::Type::None) {
        fail(a, node, "the memory file has no remote memory (NO_MEMORY_EXPANSION)");
    }
    if (memory_.type == Memory::Type::PerNpu) {
        return local(a, memory_time(op.bytes), {kNone, LocalKind::Node, node, 0});
    }
    uint32_t store = store_of(actors_[a].rank);
    if (store >= stores_.size()) {
        fail(a, node,
             "belongs to memory node " + std::to_string(store) + ", but `num-nodes` is " +
                 std::to_string(stores_.size()));
    }
    if (stores_[store].busy) {
        stores_[store].waiting.push_back({a, node});
    } else {
        serve(a, node, store);
    }
}

// The rank's own completion comes first, so what it issues next queues behind those already
// waiting.
void Engine::serve(uint32_t a, uint32_t node, uint32_t store) {
    const Body& body = *actors_[a].body;
    Tick time = memory_time(body.ops[body.op[node]].bytes);
    stores_[store].busy = true;
    local(a, time, {kNone, LocalKind::Node, node, 0});
    local(a, time, {kNone, LocalKind::Served, store, 0});
}

void Engine::served(uint32_t store) {
    Store& s = stores_[store];
    if (s.head == s.waiting.size()) {
        s.waiting.clear();
        s.head = 0;
        s.busy = false;
        return;
    }
    auto [a, node] = s.waiting[s.head++];
    serve(a, node, store);
}

}  // namespace chakra::astra
