// ASTRA-sim mode in Python: graphs and settings in, times out.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "core/astra/engine/engine.hpp"
#include "core/astra/load/load.hpp"
#include "core/bindings/bind.hpp"

namespace chakra::bind {

namespace {

using namespace chakra::astra;

// Everything a run gives back. Arrays are by actor; `actor_of` says which one a rank is.
struct Result {
    Folding folding;
    Outcome outcome;
};

std::vector<Implementation> implementations(const nb::list& items) {
    std::vector<Implementation> out;
    for (nb::handle item : items) {
        auto [algo, one, window] = nb::cast<std::tuple<int, bool, uint32_t>>(item);
        out.push_back({static_cast<Algo>(algo), one, window});
    }
    return out;
}

void require_runnable(const Program& program, const Network& network) {
    uint64_t ranks = network.dims.empty() ? 0 : 1;
    for (const Dimension& d : network.dims) ranks *= d.size;
    if (program.groups.empty()) throw nb::value_error("bind_groups comes before a simulation");
    if (ranks != program.ranks()) {
        throw SimulationError("the workload has " + std::to_string(program.ranks()) +
                              " ranks and the network " + std::to_string(ranks) +
                              "; they must be the same number");
    }
}

std::shared_ptr<Result> simulate(const Program& program, const System& system,
                                 const Network& network, const Memory& memory, bool fold_ranks) {
    require_runnable(program, network);
    nb::gil_scoped_release unlocked;
    auto result = std::make_shared<Result>();
    uint32_t ranks = program.ranks();
    result->folding = fold_ranks ? fold(program, system, network, memory)
                                 : unfolded(ranks, "folding was switched off");
    if (result->folding.folded) {
        try {
            result->outcome = Engine(program, system, network, memory, result->folding).run();
            return result;
        } catch (const NotFoldable& e) {
            result->folding = unfolded(ranks, e.what());
        }
    }
    result->outcome = Engine(program, system, network, memory, result->folding).run();
    return result;
}

template <class T, class F>
Out<T> column(size_t n, F value) {
    std::vector<T> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = value(i);
    return to_numpy(std::move(out));
}

// A graph's columns as Python gives them; every one must have a value for each node.
class Columns {
   public:
    explicit Columns(const nb::dict& given) : given_(given) {
        nodes_ = nb::cast<In<uint64_t>>(given["id"]).shape(0);
    }
    size_t nodes() const { return nodes_; }

    template <class T>
    In<T> get(const char* name, size_t more = 0) const {
        auto array = nb::cast<In<T>>(given_[name]);
        if (array.shape(0) != nodes_ + more) throw nb::value_error("columns of different lengths");
        return array;
    }
    template <class T, class To>
    void copy(const char* name, std::vector<To>& to, size_t more = 0) const {
        auto array = get<T>(name, more);
        to.assign(array.data(), array.data() + array.shape(0));
    }

   private:
    const nb::dict& given_;
    size_t nodes_;
};

void copy_attributes(const Columns& columns, RawGraph& g) {
    auto has = columns.get<uint32_t>("has"), dims = columns.get<uint32_t>("involved_dim");
    auto coll = columns.get<int64_t>("comm_type"), src = columns.get<int64_t>("comm_src");
    auto dst = columns.get<int64_t>("comm_dst"), tag = columns.get<int64_t>("comm_tag");
    auto group = columns.get<int64_t>("group");
    auto size = columns.get<uint64_t>("comm_size"), ops = columns.get<uint64_t>("num_ops");
    auto tensor = columns.get<uint64_t>("tensor_size");
    for (size_t i = 0; i < columns.nodes(); ++i) {
        g.attributes.push_back(has(i) != 0 ? static_cast<uint32_t>(g.rows.size()) : kNone);
        if (has(i) == 0) continue;
        g.rows.push_back({has(i), dims(i), coll(i), size(i), ops(i), tensor(i), src(i), dst(i),
                          tag(i), group(i)});
    }
}

RawGraph raw_graph(const nb::dict& given) {
    Columns columns(given);
    RawGraph g;
    columns.copy<uint64_t>("id", g.id);
    columns.copy<uint64_t>("duration_micros", g.micros);
    columns.copy<int64_t>("type", g.type);
    columns.copy<uint32_t>("is_cpu_op", g.cpu);
    columns.copy<uint64_t>("dep_offsets", g.first_dep, 1);
    auto deps = nb::cast<In<uint64_t>>(given["deps"]);
    g.deps.assign(deps.data(), deps.data() + deps.shape(0));
    bool ascending = std::is_sorted(g.first_dep.begin(), g.first_dep.end());
    if (!ascending || g.first_dep.back() > g.deps.size()) {
        throw nb::value_error("dependency offsets are not ascending");
    }
    copy_attributes(columns, g);
    if (given.contains("texts")) {
        g.texts = nb::cast<std::vector<std::pair<uint64_t, std::string>>>(given["texts"]);
    }
    return g;
}

std::vector<Group> groups_of(const nb::list& items) {
    std::vector<Group> out;
    for (nb::handle item : items) {
        auto [id, members] = nb::cast<std::tuple<int64_t, std::vector<Rank>>>(item);
        out.push_back({id, members});
    }
    return out;
}

// One row per node, in issue order. A column that does not apply to a node holds 0 or -1.
nb::dict table(const Body& body) {
    size_t n = body.size();
    auto op = [&](size_t i) { return body.op[i] == kNone ? Op{} : body.ops[body.op[i]]; };
    nb::dict out;
    out["id"] = column<uint64_t>(n, [&](size_t i) { return body.ids[i]; });
    out["type"] = column<int32_t>(n, [&](size_t i) { return static_cast<int32_t>(body.kind[i]); });
    out["is_cpu_op"] = column<uint8_t>(n, [&](size_t i) { return body.cpu[i]; });
    out["collective"] = column<int32_t>(n, [&](size_t i) {
        return body.kind[i] == Kind::Collective ? static_cast<int32_t>(op(i).coll) : -1;
    });
    out["group"] = column<int64_t>(n, [&](size_t i) { return op(i).group_id; });
    out["bytes"] = column<uint64_t>(n, [&](size_t i) { return op(i).bytes; });
    out["num_ops"] = column<uint64_t>(n, [&](size_t i) { return op(i).num_ops; });
    out["tensor_size"] = column<uint64_t>(n, [&](size_t i) { return op(i).tensor_size; });
    return out;
}

void bind_inputs(nb::module_& m) {
    nb::class_<Body>(m, "AstraBody").def("__len__", &Body::size).def("table", &table);
    nb::class_<Custom>(m, "AstraCustom");
    nb::class_<Program>(m, "AstraProgram")
        .def_prop_ro("ranks", &Program::ranks)
        .def_prop_ro(
            "body_of",
            [](const Program& p) {
                return column<uint32_t>(p.ranks(), [&](size_t r) { return p.body_of[r]; });
            },
            nb::rv_policy::move)
        .def_prop_ro("bodies", [](const Program& p) { return p.bodies; })
        .def("bind_groups",
             [](Program& p, const nb::list& groups) { bind_groups(p, groups_of(groups)); });
    nb::class_<System>(m, "AstraSystem")
        .def(nb::init<>())
        .def_rw("endpoint_delay", &System::endpoint_delay)
        .def_rw("active_chunks", &System::active_chunks)
        .def_rw("splits", &System::splits)
        .def_rw("queues", &System::queues)
        .def_rw("local_bw_aware", &System::local_bw_aware)
        .def_rw("roofline", &System::roofline)
        .def_rw("replay_only", &System::replay_only)
        .def_rw("rendezvous", &System::rendezvous)
        .def_rw("lenient", &System::lenient)
        .def_rw("local_mem_bw", &System::local_mem_bw)
        .def_rw("peak_perf", &System::peak_perf)
        .def("set_implementations",
             [](System& s, size_t coll, const nb::list& items) {
                 s.implementations[coll & 3] = implementations(items);
             })
        .def("set_custom", [](System& s, size_t coll,
                              std::shared_ptr<Custom> c) { s.custom[coll & 3] = std::move(c); })
        .def("set_custom_node", [](System& s, uint64_t node, std::shared_ptr<Custom> c) {
            s.custom_by_node[node] = std::move(c);
        });
    nb::class_<Network>(m, "AstraNetwork")
        .def(nb::init<>())
        .def_rw("aware", &Network::aware)
        .def("add", [](Network& n, int shape, uint32_t size, double bandwidth, double latency) {
            n.dims.push_back({static_cast<Shape>(shape), size, bandwidth, latency});
        });
    nb::class_<Memory>(m, "AstraMemory")
        .def(nb::init<>())
        .def("set", [](Memory& mem, int type, uint32_t nodes, uint32_t npus_per_node,
                       uint64_t latency, uint64_t bandwidth) {
            mem = {static_cast<Memory::Type>(type), nodes, npus_per_node, latency, bandwidth};
        });
}

void bind_result(nb::module_& m) {
    nb::class_<Result>(m, "AstraResult")
        .def_prop_ro("folded", [](const Result& r) { return r.folding.folded; })
        .def_prop_ro("why_not_folded", [](const Result& r) { return r.folding.why_not; })
        .def_prop_ro("stuck", [](const Result& r) { return r.outcome.stuck; })
        .def_prop_ro("events", [](const Result& r) { return r.outcome.events; })
        .def_prop_ro(
            "actor_of",
            [](const Result& r) {
                const auto& of = r.folding.actor_of;
                return column<uint32_t>(of.size(), [&](size_t i) { return of[i]; });
            },
            nb::rv_policy::move)
        .def_prop_ro(
            "representative",
            [](const Result& r) {
                const auto& reps = r.folding.representative;
                return column<uint32_t>(reps.size(), [&](size_t i) { return reps[i]; });
            },
            nb::rv_policy::move)
        .def_prop_ro(
            "finished",
            [](const Result& r) {
                const auto& actors = r.outcome.actors;
                return column<int64_t>(actors.size(), [&](size_t i) { return actors[i].finished; });
            },
            nb::rv_policy::move)
        .def_prop_ro(
            "gpu_time",
            [](const Result& r) {
                const auto& actors = r.outcome.actors;
                return column<int64_t>(actors.size(), [&](size_t i) { return actors[i].gpu_time; });
            },
            nb::rv_policy::move)
        .def("start",
             [](const Result& r, size_t actor) {
                 return to_numpy(std::vector<int64_t>(r.outcome.actors.at(actor).start));
             })
        .def("end",
             [](const Result& r, size_t actor) {
                 return to_numpy(std::vector<int64_t>(r.outcome.actors.at(actor).end));
             })
        .def("links", [](const Result& r) {
            const auto& links = r.outcome.links;
            return nb::make_tuple(
                column<uint64_t>(links.size(), [&](size_t i) { return links[i].key; }),
                column<uint64_t>(links.size(), [&](size_t i) { return links[i].messages; }),
                column<uint64_t>(links.size(), [&](size_t i) { return links[i].bytes; }),
                column<int64_t>(links.size(), [&](size_t i) { return links[i].busy; }));
        });
}

// Raised as (message, whether some rank would wait for ever).
void bind_error(nb::module_& m) {
    static PyObject* error =
        PyErr_NewException("chakrakit.core.SimulationError", PyExc_ValueError, nullptr);
    m.attr("SimulationError") = nb::handle(error);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const SimulationError& e) {
            nb::object args = nb::make_tuple(e.what(), e.deadlock());
            PyErr_SetObject(error, args.ptr());
        }
    });
}

std::shared_ptr<Program> make_program(std::vector<std::shared_ptr<Body>> bodies,
                                      std::vector<uint32_t> body_of) {
    for (uint32_t b : body_of) {
        if (b >= bodies.size()) throw nb::value_error("no such body");
    }
    auto program = std::make_shared<Program>();
    program->bodies = std::move(bodies);
    program->body_of = std::move(body_of);
    return program;
}

std::shared_ptr<Program> load_program(const std::vector<std::string>& paths, bool lenient) {
    nb::gil_scoped_release unlocked;
    return std::make_shared<Program>(load(paths, lenient));
}

std::shared_ptr<Body> make_body(const nb::dict& columns, const std::string& where, int64_t rank,
                                bool lenient) {
    Rank own = rank < 0 ? kNone : static_cast<Rank>(rank);
    return std::make_shared<Body>(build(raw_graph(columns), where, own, lenient));
}

std::shared_ptr<Custom> make_custom(const std::vector<std::string>& paths, bool lenient) {
    auto custom = std::make_shared<Custom>();
    for (const std::string& path : paths) {
        custom->bodies.push_back(std::make_shared<Body>(load_custom(path, lenient)));
    }
    return custom;
}

nb::list texts(const Program& program) {
    nb::list out;
    for (const auto& body : program.bodies) {
        for (const auto& [id, text] : body->texts) out.append(nb::make_tuple(id, text));
    }
    return out;
}

}  // namespace

void astra(nb::module_& m) {
    bind_error(m);
    bind_inputs(m);
    bind_result(m);
    m.def("astra_body", &make_body);
    m.def("astra_program", &make_program);
    m.def("astra_load", &load_program);
    m.def("astra_texts", &texts);
    m.def("astra_load_custom", &make_custom);
    m.def("astra_simulate", &simulate);
}

}  // namespace chakra::bind
