// Programs that react: the verbs they yield and the world they act in.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <stdexcept>

#include "core/bindings/bind.hpp"
#include "core/bindings/live_world.hpp"
#include "core/sim/check.hpp"

namespace chakra::bind {

namespace {

using live::Group;
using live::Message;
using live::Playing;
using live::Verb;
using live::World;

constexpr double kPicosecondsPerSecond = 1e12;

// Nanoseconds as the clock counts them, to the nearest picosecond.
sim::Time ticks(double ns, const char* what) {
    double ps = std::rint(ns * 1000);
    if (!(ps >= 0) || ps > static_cast<double>(sim::kHorizon))
        throw std::invalid_argument(std::string(what) + " of " + std::to_string(ns) +
                                    " ns; give 0 or more, and at most 50 days");
    return static_cast<sim::Time>(ps);
}

int64_t whole(double bytes, const char* what) {
    if (!(bytes >= 0) || bytes > 9e15)
        throw std::invalid_argument(std::string(what) + " of " + std::to_string(bytes) +
                                    " bytes; give 0 or more");
    return std::llrint(bytes);
}

sim::Rank rank_of(int priority, int weight) {
    if (priority < 0 || priority >= sim::kClasses || weight < 1 || weight > 0xffff)
        throw std::invalid_argument("a priority is from 0 to 63 and a weight from 1 to 65535");
    return {static_cast<uint8_t>(priority), static_cast<uint16_t>(weight)};
}

Verb sleep(double ns, nb::object value) {
    Verb v;
    v.op = live::kSleep;
    v.time = ticks(ns, "a sleep");
    v.a = std::move(value);
    return v;
}

// `ns` below 0: as long as `flops` and `bytes` take on the device.
Verb compute(double ns, double flops, double bytes, nb::object dtype, nb::object name, bool host,
             int priority) {
    Verb v;
    v.op = live::kCompute;
    v.time = ns < 0 ? -1 : ticks(ns, "a computation");
    v.key = flops;
    v.size = whole(bytes, "a computation");
    v.a = std::move(name);
    v.b = std::move(dtype);
    v.flag = host;
    v.number = priority;
    return v;
}

Verb send(nb::object to, double size, nb::object body, bool wait, int priority, int weight,
          nb::object name) {
    Verb v;
    v.op = live::kSend;
    v.size = whole(size, "a message");
    v.a = std::move(to);
    v.b = std::move(body);
    v.c = std::move(name);
    v.flag = wait;
    v.rank = rank_of(priority, weight);
    return v;
}

// `ns` below 0: for ever.
Verb receive(nb::object match, int64_t count, double ns) {
    if (count < 1) throw std::invalid_argument("receive 1 message or more");
    Verb v;
    v.op = live::kReceive;
    v.a = std::move(match);
    v.size = count;
    v.time = ns < 0 ? -1 : ticks(ns, "a timeout");
    return v;
}

Verb collective(nb::object kind, double size, nb::object group, int root) {
    Verb v;
    v.op = live::kCollective;
    v.a = std::move(kind);
    v.b = std::move(group);
    v.size = whole(size, "a collective");
    v.number = root;
    return v;
}

Verb access(nb::object store, double size, bool writes) {
    Verb v;
    v.op = live::kAccess;
    v.a = std::move(store);
    v.size = whole(size, "a load or store");
    v.flag = writes;
    return v;
}

// `work` is nanoseconds, or a function that gives them for a place.
Verb use(int pool, nb::object work, double key, nb::object item, double change, nb::object about) {
    Verb v;
    v.op = live::kUse;
    v.number = pool;
    v.key = key;
    v.a = nb::none();
    if (PyFloat_Check(work.ptr()) || PyLong_Check(work.ptr()))
        v.time = ticks(nb::cast<double>(work), "a use");
    else
        v.a = std::move(work);
    v.b = std::move(item);
    v.more = ticks(change, "a change");
    v.c = std::move(about);
    return v;
}

Verb together(nb::tuple children, bool any) {
    Verb v;
    v.op = any ? live::kAnyOf : live::kAllOf;
    if (any && children.size() == 0)
        throw std::invalid_argument("any_of needs something to wait for");
    v.a = std::move(children);
    return v;
}

Verb spawn(nb::object what) {
    Verb v;
    v.op = live::kSpawn;
    v.a = std::move(what);
    return v;
}

Verb play(nb::object playing, int rank, nb::object name) {
    Verb v;
    v.op = live::kPlay;
    v.a = std::move(playing);
    v.b = std::move(name);
    v.number = rank;
    return v;
}

void make_group(Group* self, std::vector<int32_t> members) {
    new (self) Group;
    self->called.assign(members.size(), 0);
    self->members = std::move(members);
}

void make_playing(Playing* self, int32_t score) {
    new (self) Playing;
    self->score = score;
}

void make_world(World* self, In<double> bandwidth, In<double> comm_slowdown, bool fair,
                int64_t queue_depth, In<int32_t> gate_slots, In<int64_t> fault_time,
                In<int8_t> fault_is_link, In<int32_t> fault_target, In<double> fault_factor,
                bool flow, std::shared_ptr<sim::Ways> ways, In<double> latency, int64_t before,
                bool plain, bool timed, bool records) {
    live::Messages messages{std::move(ways), own(bandwidth), own(latency), before, plain, timed};
    sim::Topology topology{own(bandwidth), {0}, {}};
    for (double& rate : topology.bandwidth) rate /= kPicosecondsPerSecond;
    sim::check(topology);
    sim::Workload site;
    site.comm_slowdown = own(comm_slowdown);
    site.fair = fair, site.queue_depth = queue_depth;
    site.gate_slots = own(gate_slots);
    site.instance_jobs = {0};
    site.lane_kind.assign(2 * site.comm_slowdown.size(), sim::kPool);
    site.fault_time = own(fault_time), site.fault_is_link = own(fault_is_link);
    site.fault_target = own(fault_target), site.fault_factor = own(fault_factor);
    sim::check(site);
    new (self) World(std::move(site), std::move(topology), flow, std::move(messages), records);
}

int32_t add_plans(World& world, const sim::Plans& plans, const sim::Topology& routes,
                  In<double> payload) {
    return world.growing().add_plans(plans, routes, {payload.data(), payload.size()});
}

int32_t add_score(World& world, const sim::Workload& rows, In<int32_t> devices, int32_t plan) {
    sim::live::Score score;
    score.rows = rows;
    score.devices = own(devices);
    score.first_plan = plan;
    return world.growing().add_score(std::move(score));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    return nb::inst_ptr<World>(self)->traverse(visit, arg);
}

int clear(PyObject* self) {
    nb::inst_ptr<World>(self)->let_go();
    return 0;
}

PyType_Slot world_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear)},
                             {0, nullptr}};

}  // namespace

void live_programs(nb::module_& m) {
    using nb::literals::operator""_a;
    nb::class_<Verb>(m, "LiveVerb")
        .def_prop_ro("op", [](const Verb& v) { return static_cast<int>(v.op); })
        .def_ro("size", &Verb::size)
        .def_prop_ro("ns", [](const Verb& v) { return static_cast<double>(v.time) / 1000; })
        .def_prop_ro("objects", [](const Verb& v) {
            auto part = [](const nb::object& o) { return o.is_valid() ? o : nb::none(); };
            return nb::make_tuple(part(v.a), part(v.b), part(v.c));
        });
    nb::class_<Message>(m, "LiveMessage")
        .def_ro("sender", &Message::sender)
        .def_ro("body", &Message::body)
        .def_ro("size", &Message::size)
        .def_prop_ro("sent_ns", [](const Message& m) { return static_cast<double>(m.sent) / 1000; })
        .def_prop_ro("arrived_ns",
                     [](const Message& m) { return static_cast<double>(m.arrived) / 1000; });
    nb::class_<Group>(m, "LiveGroup")
        .def("__init__", &make_group, "members"_a)
        .def_ro("members", &Group::members);
    nb::class_<Playing>(m, "LivePlaying").def("__init__", &make_playing, "score"_a);
    m.def("live_sleep", &sleep, "ns"_a, "value"_a.none());
    m.def("live_compute", &compute, "ns"_a, "flops"_a, "bytes"_a, "dtype"_a, "name"_a, "host"_a,
          "priority"_a);
    m.def("live_send", &send, "to"_a, "size"_a, "body"_a.none(), "wait"_a, "priority"_a, "weight"_a,
          "name"_a);
    m.def("live_receive", &receive, "match"_a.none(), "count"_a, "ns"_a);
    m.def("live_collective", &collective, "kind"_a, "size"_a, "group"_a, "root"_a);
    m.def("live_access", &access, "store"_a, "size"_a, "writes"_a);
    m.def("live_use", &use, "pool"_a, "work"_a, "key"_a, "item"_a.none(), "change"_a,
          "about"_a.none());
    m.def("live_together", &together, "children"_a, "any"_a);
    m.def("live_spawn", &spawn, "what"_a);
    m.def("live_play", &play, "playing"_a, "rank"_a, "name"_a);
    nb::class_<World>(m, "LiveWorld", nb::type_slots(world_slots))
        .def("__init__", &make_world, nb::kw_only(), "bandwidth"_a, "comm_slowdown"_a, "fair"_a,
             "queue_depth"_a, "gate_slots"_a, "fault_time"_a, "fault_is_link"_a, "fault_target"_a,
             "fault_factor"_a, "flow"_a, "ways"_a, "latency"_a, "before"_a, "plain"_a, "timed"_a,
             "records"_a)
        .def("add_actor", &World::add_actor, "handle"_a, "name"_a, "device"_a, "daemon"_a,
             "faults"_a.none())
        .def("begin", &World::begin, "actor"_a, "program"_a, "at"_a)
        .def("crash_at", &World::crash_at, "actor"_a, "at"_a, "until"_a)
        .def("add_pool", &World::add_pool, "width"_a, "discipline"_a, "most_waiting"_a, "holds"_a,
             "policy"_a.none())
        .def("add_plans", &add_plans, "plans"_a, "routes"_a, "payload"_a)
        .def("add_score", &add_score, "rows"_a, "devices"_a, "plan"_a)
        .def("run", &World::run, "until"_a, "hooks"_a)
        .def("let_go", &World::let_go)
        .def("records", &World::records)
        .def("links", &World::links)
        .def("stuck", &World::stuck)
        .def("pools", &World::pools)
        .def("plays", &World::plays)
        .def("returned", &World::returned, "actor"_a)
        .def("resident", &World::resident, "pool"_a, "place"_a)
        .def_prop_ro("verbs", &World::verbs)
        .def_prop_ro("now_ps", &World::now);
}

}  // namespace chakra::bind
