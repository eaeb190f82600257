#include "core/astra/engine/calendar.hpp"
#include "core/astra/engine/engine.hpp"
#include "core/astra/engine/mailbox.hpp"
#include "core/astra/load/load.hpp"
#include "core/astra/plan/fold.hpp"
#include "core/astra/plan/network.hpp"
#include "core/astra/plan/plan.hpp"
#include "harness.hpp"

using namespace chakra::astra;

namespace {

Network network(std::vector<Dimension> dims) {
    return {std::move(dims), false};
}

System ring_system(uint32_t splits) {
    System system;
    system.splits = splits;
    system.local_mem_bw = 1;  // a byte per ns
    for (auto& list : system.implementations) list = {Implementation{}};
    return system;
}

// One node after another: type, duration in µs, attributes.
RawGraph chain(const std::vector<std::pair<Kind, Attributes>>& nodes) {
    RawGraph g;
    for (size_t i = 0; i < nodes.size(); ++i) {
        g.id.push_back(10 + i);
        g.type.push_back(static_cast<int32_t>(nodes[i].first));
        g.cpu.push_back(0);
        g.micros.push_back(2);
        g.attributes.push_back(static_cast<uint32_t>(i));
        g.rows.push_back(nodes[i].second);
        if (i > 0) g.deps.push_back(9 + i);
        g.first_dep.push_back(g.deps.size());
    }
    return g;
}

Attributes all_reduce(uint64_t bytes) {
    Attributes a;
    a.has = Attributes::kCommType | Attributes::kCommSize;
    a.comm_size = bytes;
    return a;
}

Program same_on_all(RawGraph graph, uint32_t ranks) {
    Program p;
    p.bodies.push_back(std::make_shared<Body>(build(std::move(graph), "test", kNone, false)));
    p.body_of.assign(ranks, 0);
    bind_groups(p, {});
    return p;
}

std::vector<uint32_t> popped_items(Calendar& calendar) {
    std::vector<uint32_t> items;
    Event e;
    while (calendar.pop(e)) items.push_back(e.item);
    return items;
}

}  // namespace

STORY("the calendar gives events by tick, and at one tick in order of insertion") {
    Calendar calendar;
    auto insert = [&](Tick tick, uint32_t item) {
        Event e;
        e.item = item;
        calendar.insert(tick, e);
    };
    for (uint32_t i = 0; i < 500; ++i) insert(i % 7 * 1000, i);
    std::vector<uint32_t> expected;
    for (uint32_t tick = 0; tick < 7; ++tick)
        for (uint32_t i = tick; i < 500; i += 7) expected.push_back(i);
    EXPECT(popped_items(calendar), expected);
    EXPECT(calendar.now(), 6000);
    EXPECT(calendar.empty(), true);
}

STORY("an event inserted for now runs now, after those already there") {
    Calendar calendar;
    Event e;
    e.item = 1;
    calendar.insert(5, e);
    e.item = 2;
    calendar.insert(5, e);
    calendar.pop(e);
    EXPECT(e.item, 1);
    e.item = 3;
    calendar.insert(calendar.now(), e);
    EXPECT(popped_items(calendar), {2, 3});
    REFUSES(SimulationError, "too long", calendar.insert(kMaxTick + 1, e));
}

STORY("a pool hands freed places out again") {
    Pool<Waiter> pool;
    uint32_t a = pool.take({}), b = pool.take({});
    pool.give(a);
    EXPECT(pool.take({}), a);
    EXPECT(pool.take({}), b + 1);
}

STORY("messages and receives meet by key, in order, whoever comes first") {
    Mailbox box;
    Pool<Waiter> waiters;
    Key key{1, 2, 3, 4}, other{1, 2, 3, 5};
    uint32_t first = waiters.take({}), second = waiters.take({});
    EXPECT(box.post(key, first, waiters), false);
    EXPECT(box.post(key, second, waiters), false);
    EXPECT(box.arrive(other, waiters), kNone);  // early: nobody waits for this size
    EXPECT(box.arrive(key, waiters), first);
    EXPECT(box.arrive(key, waiters), second);
    EXPECT(box.post(other, first, waiters), true);
    EXPECT(box.empty(), true);
    EXPECT(box.take(key), false);
    box.arrive(key, waiters);
    EXPECT(box.take(key), true);
    EXPECT(box.empty(), true);
}

STORY("a message pays its hops and one serialization, in the first dimension that differs") {
    Topology t(network({{Shape::Ring, 4, 2, 10}, {Shape::Switch, 2, 1, 100}}));
    EXPECT(t.ranks(), 8);
    EXPECT(t.hops(0, 0, 3), 1);  // the short way round
    EXPECT(t.hops(0, 0, 2), 2);
    EXPECT(t.hops(1, 0, 1), 2);
    EXPECT(t.delay(0, 2, 100), 2 * 10 + 50);
    EXPECT(t.delay(0, 4, 100), 2 * 100 + 100);
    EXPECT(t.first_difference(1, 5), 1);
    EXPECT(t.difference(1, 4), 7);  // three back in the ring of four, one on in the switch
    EXPECT(t.difference(2, 5), 7);
}

STORY("times that cannot be counted in nanoseconds are refused") {
    EXPECT(whole_ticks(2.9), 2);
    REFUSES(SimulationError, "too long", whole_ticks(1e30));
    REFUSES(SimulationError, "too long", whole_ticks(0.0 / 0.0));
}

STORY("a ring all-reduce sends 2 (n - 1) messages of an n-th and reduces half of them") {
    System system = ring_system(2);
    Network net = network({{Shape::Ring, 4, 1, 1}});
    Planner planner(system, net);
    const Plan& plan = planner[planner.plan(Coll::AllReduce, 800, kNone, 0)];
    EXPECT(plan.chunks, 2);
    EXPECT(plan.chunk_bytes, 400);
    EXPECT(plan.phases.size(), 1);
    EXPECT(plan.phases[0].messages, 6);
    EXPECT(plan.phases[0].bytes, 100);
    EXPECT(plan.phases[0].reduce, 300);  // three passes over memory
    std::vector<Tick> reductions;
    for (uint32_t k = 0; k < 6; ++k) reductions.push_back(plan.phases[0].reduction(k));
    EXPECT(reductions, {-1, 300, 300, 300, -1, -1});
    EXPECT(planner.plan(Coll::AllReduce, 800, kNone, 0), 0);  // made once
}

STORY("an all-reduce over two dimensions goes there and back") {
    System system = ring_system(1);
    for (auto& list : system.implementations) list.resize(2);
    Network net = network({{Shape::Ring, 2, 1, 1}, {Shape::Ring, 4, 1, 1}});
    Planner planner(system, net);
    const Plan& plan = planner[planner.plan(Coll::AllReduce, 1600, kNone, 0)];
    std::vector<int> phases;
    std::vector<uint64_t> bytes;
    for (const Phase& p : plan.phases)
        phases.push_back(static_cast<int>(p.coll)), bytes.push_back(p.bytes);
    EXPECT(phases, {static_cast<int>(Coll::ReduceScatter), static_cast<int>(Coll::AllReduce),
                    static_cast<int>(Coll::AllGather)});
    EXPECT(bytes, {800, 200, 800});
}

STORY("configurations ASTRA-sim would hang on are refused with their cure") {
    System system = ring_system(0);
    Network net = network({{Shape::Ring, 3, 1, 1}});
    REFUSES(SimulationError, "preferred-dataset-splits",
            Planner(system, net).plan(Coll::AllReduce, 8, kNone, 0));
    system.splits = 1;
    REFUSES(SimulationError, "no dimension with two or more members",
            Planner(system, net).plan(Coll::AllReduce, 8, 0, 0));
    system.implementations[0] = {{Algo::HalvingDoubling, false, 0}};
    REFUSES(SimulationError, "a power of two members, not 3",
            Planner(system, net).plan(Coll::AllReduce, 8, kNone, 0));
    system.implementations[0] = {{}, {}};
    REFUSES(SimulationError, "2 entries and the network 1",
            Planner(system, net).plan(Coll::AllReduce, 8, kNone, 0));
    system.implementations[0] = {};
    REFUSES(SimulationError, "no `all-reduce-implementation`",
            Planner(system, net).plan(Coll::AllReduce, 8, kNone, 0));
}

STORY("a graph is put in issue order, and what is wrong with it is named") {
    RawGraph g = chain({{Kind::Compute, {}}, {Kind::Compute, {}}});
    std::swap(g.id[0], g.id[1]);
    g.deps = {11};
    g.first_dep = {0, 0, 1};
    Body body = build(RawGraph(g), "test", kNone, false);
    EXPECT(body.ids, {10, 11});
    EXPECT(body.parents, {1, 0});
    g.deps = {99};
    REFUSES(SimulationError, "depends on node 99, which is not in the file",
            build(RawGraph(g), "test", kNone, false));
    g.deps = {11};
    g.id = {10, 10};
    REFUSES(SimulationError, "two nodes have this id", build(RawGraph(g), "test", kNone, false));
    REFUSES(SimulationError, "has no nodes", build(RawGraph(), "test", kNone, false));
    REFUSES(SimulationError, "`comm_type` is missing",
            build(chain({{Kind::Collective, {}}}), "test", kNone, false));
}

STORY("ranks with equal graphs on a symmetric network are one class") {
    Program program = same_on_all(chain({{Kind::Collective, all_reduce(400)}}), 4);
    System system = ring_system(1);
    Network net = network({{Shape::Ring, 4, 1, 1}});
    Folding folding = fold(program, system, net, {});
    EXPECT(folding.folded, true);
    EXPECT(folding.actor_of, {0, 0, 0, 0});
    EXPECT(folding.representative, {0});
    EXPECT(unfolded(3, "asked for").actor_of, {0, 1, 2});
}

STORY("folded or not, a run takes the same time, and that of its messages") {
    Program program =
        same_on_all(chain({{Kind::Compute, {}}, {Kind::Collective, all_reduce(400)}}), 4);
    System system = ring_system(1);
    system.local_mem_bw = 100;
    Network net = network({{Shape::Ring, 4, 1, 5}});
    Memory memory;
    Folding one = fold(program, system, net, memory), each = unfolded(4, "");
    Outcome folded = Engine(program, system, net, memory, one).run();
    Outcome whole = Engine(program, system, net, memory, each).run();
    EXPECT(folded.actors[0].start, {0, 2000});
    for (const Timeline& t : whole.actors) EXPECT(t.end, folded.actors[0].end);
    // Six messages of 100 bytes at a byte per ns over a hop of 5. An endpoint delay of 10 comes
    // before each and after the last; three are reduced, in three passes of 1 ns.
    EXPECT(folded.actors[0].end, {2000, 2000 + 6 * (100 + 5) + 7 * 10 + 3 * 3});
}

STORY("a receive whose message never comes is a deadlock that names it") {
    Attributes recv;
    recv.has = Attributes::kCommSize | Attributes::kSrc | Attributes::kTag;
    recv.comm_size = 8, recv.src = 1;
    Program program;
    program.bodies.push_back(
        std::make_shared<Body>(build(chain({{Kind::Recv, recv}}), "rank 0", 0, false)));
    program.bodies.push_back(
        std::make_shared<Body>(build(chain({{Kind::Compute, {}}}), "rank 1", 1, false)));
    program.body_of = {0, 1};
    bind_groups(program, {});
    System system = ring_system(1);
    Network net = network({{Shape::Ring, 2, 1, 1}});
    Memory memory;
    Folding each = unfolded(2, "");
    REFUSES(SimulationError, "rank 0", Engine(program, system, net, memory, each).run());
}
