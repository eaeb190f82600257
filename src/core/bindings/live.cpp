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

[[noreturn]] void refuse(const char* what, nb::handle value, const char* rest) {
    throw live::Refused(std::string(what) + " of " + nb::cast<std::string>(nb::repr(value)) + rest);
}

double number(nb::handle value, const char* what, const char* unit) {
    double figure = PyFloat_AsDouble(value.ptr());
    if (figure != -1.0 || !PyErr_Occurred()) return figure;
    PyErr_Clear();
    refuse(what, value, (std::string("; give a number of ") + unit).c_str());
}

// Nanoseconds as the clock counts them, to the nearest picosecond.
sim::Time ticks(nb::handle ns, const char* what) {
    double ps = std::rint(number(ns, what, "nanoseconds") * 1000);
    if (!(ps >= 0) || ps > static_cast<double>(sim::kHorizon))
        refuse(what, ns, " ns; give 0 or more, and at most 50 days");
    return static_cast<sim::Time>(ps);
}

int64_t whole(nb::handle bytes, const char* what) {
    double size = number(bytes, what, "bytes");
    if (!(size >= 0) || size > 9e15) refuse(what, bytes, " bytes; give 0 or more, at most 9e15");
    return std::llrint(size);
}

sim::Rank rank_of(int priority, int weight) {
    if (priority < 0 || priority >= sim::kClasses || weight < 1 || weight > 0xffff)
        throw live::Refused("a priority is from 0 to 63 and a weight from 1 to 65535");
    return {static_cast<uint8_t>(priority), static_cast<uint16_t>(weight)};
}

Verb sleep(nb::handle ns, nb::object value) {
    Verb v;
    v.op = live::kSleep;
    v.time = ticks(ns, "a sleep");
    v.a = std::move(value);
    return v;
}

// Without `ns`: as long as `flops` and `bytes` take on the device.
Verb compute(nb::handle ns, nb::handle flops, nb::handle bytes, nb::object dtype, nb::object name,
             bool host, int priority) {
    Verb v;
    v.op = live::kCompute;
    v.time = ns.is_none() ? -1 : ticks(ns, "a computation");
    v.key = number(flops, "a computation", "FLOPs");
    if (!(v.key >= 0 && std::isfinite(v.key)))
        refuse("a computation", flops, " FLOPs; give 0 or more");
    v.size = whole(bytes, "a computation");
    v.a = std::move(name);
    v.b = std::move(dtype);
    v.flag = host;
    v.number = priority;
    return v;
}

Verb send(nb::object to, nb::handle size, nb::object body, bool wait, int priority, int weight,
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

// Without `ns`: for ever.
Verb receive(nb::object match, nb::handle count, nb::handle ns) {
    if (!match.is_none() && !PyCallable_Check(match.ptr()))
        refuse("a receive", match, "; give a function of a message that says whether it fits");
    double messages = number(count, "a receive", "messages");
    if (!(messages >= 1 && messages <= 9e15 && messages == std::floor(messages)))
        refuse("a receive", count, " messages; give 1 or more");
    Verb v;
    v.op = live::kReceive;
    v.a = std::move(match);
    v.size = static_cast<int64_t>(messages);
    v.time = ns.is_none() ? -1 : ticks(ns, "a timeout");
    return v;
}

Verb collective(nb::object kind, nb::handle size, nb::object group, int root) {
    Verb v;
    v.op = live::kCollective;
    v.a = std::move(kind);
    v.b = std::move(group);
    v.size = whole(size, "a collective");
    v.number = root;
    return v;
}

Verb access(nb::object store, nb::handle size, bool writes) {
    Verb v;
    v.op = live::kAccess;
    v.a = std::move(store);
    v.size = whole(size, "a load or store");
    v.flag = writes;
    return v;
}

// `work` is nanoseconds, or a function that gives them for a place.
Verb use(int pool, nb::object work, double key, nb::object item, nb::handle change,
         nb::object about) {
    Verb v;
    v.op = live::kUse;
    v.number = pool;
    v.key = key;
    v.a = nb::none();
    if (PyCallable_Check(work.ptr()))
        v.a = std::move(work);
    else
        v.time = ticks(work, "a use");
    v.b = std::move(item);
    v.more = ticks(change, "a change");
    v.c = std::move(about);
    return v;
}

Verb together(nb::tuple children, bool any) {
    Verb v;
    v.op = any ? live::kAnyOf : live::kAllOf;
    if (any && children.size() == 0) throw live::Refused("any_of needs something to wait for");
    v.a = std::move(children);
    return v;
}

Verb spawn(nb::object what, bool daemon) {
    Verb v;
    v.op = live::kSpawn;
    v.flag = daemon;
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

// What a program asks for that cannot be is a ConfigError of the package.
void translate_refusals() {
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const live::Refused& e) {
            nb::object type = nb::module_::import_("chakrakit.errors").attr("ConfigError");
            PyErr_SetString(type.ptr(), e.what());
        }
    });
}

void live_programs(nb::module_& m) {
    translate_refusals();
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
    m.def("live_sleep", &sleep, "ns"_a.none(), "value"_a.none());
    m.def("live_compute", &compute, "ns"_a.none(), "flops"_a.none(), "bytes"_a.none(), "dtype"_a,
          "name"_a, "host"_a, "priority"_a);
    m.def("live_send", &send, "to"_a.none(), "size"_a.none(), "body"_a.none(), "wait"_a,
          "priority"_a, "weight"_a, "name"_a);
    m.def("live_receive", &receive, "match"_a.none(), "count"_a.none(), "ns"_a.none());
    m.def("live_collective", &collective, "kind"_a, "size"_a.none(), "group"_a.none(), "root"_a);
    m.def("live_access", &access, "store"_a, "size"_a.none(), "writes"_a);
    m.def("live_use", &use, "pool"_a, "work"_a.none(), "key"_a, "item"_a.none(), "change"_a.none(),
          "about"_a.none());
    m.def("live_together", &together, "children"_a, "any"_a);
    m.def("live_spawn", &spawn, "what"_a, "daemon"_a);
    m.def("live_undone", [] { return live::Undone::count; });
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
        .def("unread", &World::unread)
        .def("pools", &World::pools)
        .def("plays", &World::plays)
        .def("returned", &World::returned, "actor"_a)
        .def("resident", &World::resident, "pool"_a, "place"_a)
        .def_prop_ro("verbs", &World::verbs)
        .def_prop_ro("now_ps", &World::now)
        .def_prop_ro("end_ps", &World::end);
}

}  // namespace chakra::bind
