// chakrakit.core: serving engines. Inputs own what they are given and are checked before anything
// runs; Python is asked with its lock held, and the rest runs without it.
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "core/bindings/bind.hpp"
#include "core/serving/check.hpp"
#include "core/serving/cluster.hpp"

namespace chakra::bind {

namespace {

using namespace serving;

template <class T>
T checked(T input) {
    check(input);
    return input;
}

void make_requests(Requests* self, In<int64_t> arrival, In<int64_t> prompt, In<int64_t> output,
                   In<int64_t> after, In<int64_t> priority, In<int64_t> adapter,
                   In<int64_t> offsets, In<uint64_t> ids, int64_t unit, int64_t parents,
                   int64_t first) {
    Requests all;
    all.arrival = own(arrival), all.prompt = own(prompt), all.output = own(output);
    all.after = own(after), all.parents = parents, all.first = first;
    all.priority = own(priority), all.adapter = own(adapter);
    all.offsets = own(offsets), all.ids = own(ids), all.unit = unit;
    new (self) Requests(checked(std::move(all)));
}

void relate_requests(Requests& self, In<int64_t> continues, In<int64_t> group, In<int64_t> deadline,
                     In<int64_t> model, In<int64_t> tenant) {
    self.continues = own(continues), self.group = own(group);
    self.deadline = own(deadline), self.model = own(model), self.tenant = own(tenant);
    check(self);
}

void fill_requests(Requests& self, In<uint64_t> contents, In<int64_t> tokens, In<int64_t> offsets) {
    self.contents = own(contents), self.content_tokens = own(tokens);
    self.content_offsets = own(offsets);
    check(self);
}

void make_grid(GridAttention* self, const std::vector<In<double>>& axes, In<double> values,
               const std::vector<In<double>>& share_axes, In<double> share) {
    if (axes.size() != 4 || share_axes.size() != 3)
        throw std::invalid_argument("a grid has four axes, and its skew three");
    GridAttention grid;
    for (size_t i = 0; i < axes.size(); ++i) grid.axes[i] = own(axes[i]);
    for (size_t i = 0; i < share_axes.size(); ++i) grid.share_axes[i] = own(share_axes[i]);
    grid.values = own(values), grid.share = own(share);
    new (self) GridAttention(checked(std::move(grid)));
}

Attention attention_of(const nb::object& given) {
    if (nb::isinstance<GridAttention>(given)) return nb::cast<GridAttention>(given);
    return nb::cast<RooflineAttention>(given);
}

void make_cost(CostTerms* self, std::function<Time(int64_t)> dense,
               std::function<Time(int64_t)> head, nb::object attention, In<int64_t> captured,
               Time adapter, Time draft) {
    new (self) CostTerms{std::move(dense),
                         std::move(head),
                         attention_of(attention),
                         own(captured),
                         Padded{},
                         {},
                         adapter,
                         draft};
}

void make_problem(Problem* self, std::shared_ptr<const Requests> requests, std::vector<Pool> pools,
                  Router router, int64_t concurrency, int64_t remote_blocks) {
    new (self) Problem();
    self->requests = std::move(requests);
    self->pools = std::move(pools);
    self->router = router;
    self->concurrency = concurrency;
    self->remote_blocks = remote_blocks;
}

void inputs(nb::module_& m) {
    using nb::literals::operator""_a;
    nb::enum_<Discipline>(m, "ServingDiscipline")
        .value("continuous", Discipline::continuous)
        .value("prefill_alone", Discipline::prefill_alone)
        .value("transformers", Discipline::transformers);
    nb::enum_<Role>(m, "ServingRole")
        .value("whole", Role::whole)
        .value("prefill", Role::prefill)
        .value("decode", Role::decode);
    nb::enum_<Router>(m, "ServingRouter")
        .value("turn", Router::turn)
        .value("least", Router::least)
        .value("prefix", Router::prefix);
    nb::class_<Requests>(m, "ServingRequests")
        .def("__init__", &make_requests, nb::kw_only(), "arrival"_a, "prompt"_a, "output"_a,
             "after"_a, "priority"_a, "adapter"_a, "offsets"_a, "ids"_a, "unit"_a, "parents"_a = 1,
             "first"_a = 0)
        .def("relate", &relate_requests, nb::kw_only(), "continues"_a, "group"_a, "deadline"_a,
             "model"_a, "tenant"_a)
        .def("fill", &fill_requests);
    nb::class_<RooflineAttention>(m, "ServingRoofline")
        .def(nb::init<double, double, double, double>(), nb::kw_only(), "ps_per_pair"_a,
             "ps_per_token"_a, "ps_per_context"_a, "least"_a)
        .def(
            "add",
            [](RooflineAttention& self, int64_t most, int64_t stride, int64_t chunk, bool sparse,
               double ps_per_pair, double work_per_token, double ps_per_token,
               double ps_per_context, double ps_per_sequence, double least) {
                if (most < 0 || stride < 1 || chunk < 0)
                    throw std::invalid_argument("a reach has a stride from 1 on and limits from 0");
                Reach reach{.most = most, .stride = stride, .chunk = chunk, .sparse = sparse};
                reach.ps_per_pair = ps_per_pair, reach.work_per_token = work_per_token;
                reach.ps_per_token = ps_per_token, reach.ps_per_context = ps_per_context;
                reach.ps_per_sequence = ps_per_sequence, reach.least = least;
                self.others.push_back(reach);
            },
            nb::kw_only(), "most"_a, "stride"_a, "chunk"_a, "sparse"_a, "ps_per_pair"_a,
            "work_per_token"_a, "ps_per_token"_a, "ps_per_context"_a, "ps_per_sequence"_a,
            "least"_a);
    nb::class_<GridAttention>(m, "ServingGrid")
        .def("__init__", &make_grid, nb::kw_only(), "axes"_a, "values"_a, "share_axes"_a,
             "share"_a);
    nb::class_<Padded>(m, "ServingPadded")
        .def(nb::init<>())
        .def_rw("tokens_multiple", &Padded::tokens_multiple)
        .def_rw("context_multiple", &Padded::context_multiple)
        .def_rw("most_tokens", &Padded::most_tokens)
        .def_rw("most_context", &Padded::most_context)
        .def_rw("capture", &Padded::capture)
        .def_rw("buffers", &Padded::buffers)
        .def_rw("ask", &Padded::ask);
    nb::class_<CostTerms>(m, "ServingCost")
        .def("__init__", &make_cost, nb::kw_only(), "dense"_a, "head"_a, "attention"_a,
             "captured"_a, "adapter"_a, "draft"_a)
        .def_rw("padded", &CostTerms::padded)
        .def_rw("service", &CostTerms::service);
    nb::class_<Pool>(m, "ServingPool")
        .def(nb::init<Role, int32_t, int32_t, Options, CostTerms>(), nb::kw_only(), "role"_a,
             "engines"_a, "ranks"_a, "options"_a, "cost"_a)
        .def_rw("shared", &Pool::shared)
        .def_rw("shared_by_fewer", &Pool::shared_by_fewer)
        .def_rw("model", &Pool::model);
    nb::class_<Problem>(m, "ServingProblem")
        .def("__init__", &make_problem, nb::kw_only(), "requests"_a, "pools"_a, "router"_a,
             "concurrency"_a, "remote_blocks"_a)
        .def("hand_over",
             [](Problem& p, double ps_per_token, Time latency, int64_t pieces) {
                 p.handover.usual = {ps_per_token, latency};
                 p.handover.pieces = pieces;
             })
        .def("hand_over_between",
             [](Problem& p, const std::vector<std::pair<double, Time>>& by_pools) {
                 p.handover.ways.clear();
                 for (auto [ps_per_token, latency] : by_pools)
                     p.handover.ways.push_back({ps_per_token, latency});
             })
        .def("codecs",
             [](Problem& p, const std::vector<std::array<double, 3>>& given) {
                 p.handover.codecs.clear();
                 for (auto [ratio, encode, decode] : given)
                     p.handover.codecs.push_back({ratio, encode, decode});
             })
        .def("link_schedule",
             [](Problem& p, In<int64_t> at, In<double> factor) {
                 p.handover.bandwidth = {own(at), own(factor)};
             })
        .def("store_schedule",
             [](Problem& p, In<int64_t> at, In<double> factor) {
                 p.store_bandwidth = {own(at), own(factor)};
             })
        .def("fail_rank",
             [](Problem& p, Time at, int32_t engine, Time pause, Time away, Time back_pause) {
                 p.rank_faults.push_back({at, engine, pause, away, back_pause});
             })
        .def("share_devices",
             [](Problem& p, int32_t a, int32_t b) { p.share_devices.push_back({a, b}); })
        .def("fail", [](Problem& p, Time at, Time duration,
                        int32_t engine) { p.faults.push_back({at, duration, engine}); })
        .def("record", [](Problem& p, bool steps, Time from, Time to,
                          int64_t audit_every) { p.recording = {steps, from, to, audit_every}; })
        .def("give_up", [](Problem& p, Time ttft, Time tpot, Time e2e,
                           int64_t may_miss) { p.level = {ttft, tpot, e2e, may_miss}; })
        .def_rw("hooks", &Problem::hooks);
}

void options(nb::module_& m) {
    nb::class_<Options>(m, "ServingOptions")
        .def(nb::init<>())
        .def_rw("block_size", &Options::block_size)
        .def_rw("num_blocks", &Options::num_blocks)
        .def_rw("token_budget", &Options::token_budget)
        .def_rw("max_requests", &Options::max_requests)
        .def_rw("chunk_limit", &Options::chunk_limit)
        .def_rw("discipline", &Options::discipline)
        .def_rw("chunked", &Options::chunked)
        .def_rw("prefill_first", &Options::prefill_first)
        .def_rw("prefix_cache", &Options::prefix_cache)
        .def_rw("whole_prompt", &Options::whole_prompt)
        .def_rw("priorities", &Options::priorities)
        .def_rw("safety_margin", &Options::safety_margin)
        .def_rw("output_reserve", &Options::output_reserve)
        .def_rw("no_evict", &Options::no_evict)
        .def_rw("gather_steps", &Options::gather_steps)
        .def_rw("gather_share", &Options::gather_share)
        .def_rw("balance_steps", &Options::balance_steps)
        .def_rw("look_steps", &Options::look_steps)
        .def_rw("swap_blocks", &Options::swap_blocks)
        .def_rw("host_blocks", &Options::host_blocks)
        .def_rw("ps_per_block", &Options::ps_per_block)
        .def_rw("ps_per_remote_block", &Options::ps_per_remote_block)
        .def_rw("content_tokens", &Options::content_tokens)
        .def_rw("content_shards", &Options::content_shards)
        .def_rw("ps_per_rotated_token", &Options::ps_per_rotated_token)
        .def_rw("ps_per_fetched_token", &Options::ps_per_fetched_token)
        .def_rw("recomputed", &Options::recomputed)
        .def_rw("divide_every", &Options::divide_every)
        .def_rw("eager", &Options::eager)
        .def_rw("depth", &Options::depth)
        .def_rw("stages", &Options::stages)
        .def_rw("host", &Options::host)
        .def_rw("host_per_request", &Options::host_per_request)
        .def_rw("host_per_token", &Options::host_per_token)
        .def_rw("output", &Options::output)
        .def_rw("serial", &Options::serial)
        .def_rw("serial_per_request", &Options::serial_per_request)
        .def_rw("frontend", &Options::frontend)
        .def_rw("launch", &Options::launch)
        .def_rw("prompt_launch", &Options::prompt_launch)
        .def_rw("warmup", &Options::warmup)
        .def_rw("drafts", &Options::drafts)
        .def_rw("acceptance", &Options::acceptance)
        .def_rw("max_adapters", &Options::max_adapters)
        .def_rw("seed", &Options::seed);
}

void hooks(nb::module_& m) {
    using H = ClusterHooks;
    auto set = [](auto member) {
        return [member](H& h, decltype(std::declval<Hooks>().*member) f) {
            h.engine.*member = std::move(f);
        };
    };
    nb::class_<H>(m, "ServingHooks")
        .def(nb::init<>())
        .def("admit", set(&Hooks::admit))
        .def("batch", set(&Hooks::batch))
        .def("preempt", set(&Hooks::preempt))
        .def("evict", set(&Hooks::evict))
        .def("store_codec", set(&Hooks::store_codec))
        .def("divide", set(&Hooks::divide))
        .def("route", [](H& h, decltype(H::route) f) { h.route = std::move(f); })
        .def("place", [](H& h, decltype(H::place) f) { h.place = std::move(f); })
        .def("codec", [](H& h, decltype(H::codec) f) { h.codec = std::move(f); })
        .def("open", [](H& h, decltype(H::open) f) { h.open = std::move(f); })
        .def("finish", [](H& h, decltype(H::finish) f) { h.finish = std::move(f); })
        .def("migrate", [](H& h, decltype(H::migrate) f) { h.migrate = std::move(f); })
        .def("scale", [](H& h, decltype(H::scale) f) { h.scale = std::move(f); })
        .def("next", [](H& h, decltype(H::next) f) { h.next = std::move(f); })
        .def_rw("in_order", &H::in_order)
        .def_rw("interval", &H::interval)
        .def_rw("start_up", &H::start_up)
        .def_rw("source_interval", &H::source_interval);
}

template <class Row, class F>
auto column(const std::vector<Row>& rows, F field) {
    std::vector<int64_t> out;
    out.reserve(rows.size());
    for (const Row& row : rows) out.push_back(static_cast<int64_t>(field(row)));
    return to_numpy(std::move(out));
}

// A cluster, and what Python may ask of it.
class Handle {
   public:
    explicit Handle(const Problem& problem) : cluster_(problem) {}

    void run() { cluster_.run(); }
    Time now() const { return cluster_.now(); }
    bool given_up() const { return cluster_.given_up(); }
    int64_t matched(int32_t engine, int32_t request) const { return one(engine).matched(request); }

    nb::tuple engine(int32_t engine) const {
        const Engine& e = one(engine);
        return nb::make_tuple(e.blocks().free(), e.blocks().total(), e.waiting().size(),
                              e.running().size());
    }

    nb::tuple tokens(int32_t engine) const {
        Tokens sum = cluster_.tokens(engine);
        return nb::make_tuple(sum.held, sum.promised, sum.prompts_waiting);
    }

    nb::tuple state(int32_t engine) const {
        const Engine& e = one(engine);
        return nb::make_tuple(cluster_.pool(engine), e.role(), cluster_.open(engine));
    }

    // The share of content, the memory's tokens, and of content and pages: hits, misses, near
    // ones.
    nb::tuple division(int32_t engine) const {
        const Division& d = one(engine).division();
        auto counts = [](const Found& f) {
            return nb::make_tuple(f.hits, f.misses, f.near_misses);
        };
        return nb::make_tuple(d.share, one(engine).memory_tokens(), counts(d.content),
                              counts(d.pages));
    }

    std::vector<int32_t> running(int32_t engine) const { return one(engine).running(); }
    std::vector<int32_t> waiting(int32_t engine) const {
        return {one(engine).waiting().begin(), one(engine).waiting().end()};
    }

    Time step(int32_t engine, int64_t decodes, int64_t context, int64_t prompt_tokens,
              int64_t prompt_context) {
        if (std::min({decodes, context, prompt_tokens, prompt_context}) < 0 || decodes > 1 << 20)
            throw std::invalid_argument("a step has 0 to 1,048,576 requests and no negative sizes");
        return cluster_.estimate(engine, {decodes, context, prompt_tokens, prompt_context});
    }

    // In the order of RequestView's fields; times in seconds, None for what has not come yet.
    nb::tuple request(int32_t request) const {
        auto i = static_cast<size_t>(request);
        const Progress& p = cluster_.progress().at(i);
        const Requests& r = cluster_.requests();
        return nb::make_tuple(request, r.prompt[i], r.output[i], r.priority[i], p.computed,
                              p.generated, p.cached, p.blocks.size(), seconds(p.arrived),
                              p.preempted, r.adapter[i], Requests::or_none(r.group, i),
                              Requests::or_none(r.tenant, i), seconds(cluster_.deadline(request)),
                              seconds(p.first));
    }

    nb::dict requests() const {
        const auto& rows = cluster_.progress();
        nb::dict d;
        d["arrival"] = column(rows, [](const Progress& p) { return p.arrived; });
        d["scheduled"] = column(rows, [](const Progress& p) { return p.scheduled_at; });
        d["first"] = column(rows, [](const Progress& p) { return p.first; });
        d["finish"] = column(rows, [](const Progress& p) { return p.finished; });
        d["generated"] = column(rows, [](const Progress& p) { return p.generated; });
        d["cached"] = column(rows, [](const Progress& p) { return p.cached; });
        d["preempted"] = column(rows, [](const Progress& p) { return p.preempted; });
        d["engine"] = column(rows, [](const Progress& p) { return p.engine; });
        return d;
    }

    nb::dict steps() const {
        const auto& rows = cluster_.steps();
        nb::dict d;
        d["start"] = column(rows, [](const StepRow& s) { return s.start; });
        d["end"] = column(rows, [](const StepRow& s) { return s.end; });
        d["engine"] = column(rows, [](const StepRow& s) { return s.engine; });
        d["tokens"] = column(rows, [](const StepRow& s) { return s.tokens; });
        d["prompt_tokens"] = column(rows, [](const StepRow& s) { return s.prompt_tokens; });
        d["requests"] = column(rows, [](const StepRow& s) { return s.requests; });
        d["context"] = column(rows, [](const StepRow& s) { return s.context; });
        d["blocks"] = column(rows, [](const StepRow& s) { return s.blocks; });
        d["waiting"] = column(rows, [](const StepRow& s) { return s.waiting; });
        return d;
    }

    nb::dict pieces() const {
        const auto& rows = cluster_.pieces();
        nb::dict d;
        d["step"] = column(rows, [](const PieceRow& p) { return p.step; });
        d["request"] = column(rows, [](const PieceRow& p) { return p.request; });
        d["tokens"] = column(rows, [](const PieceRow& p) { return p.tokens; });
        d["context"] = column(rows, [](const PieceRow& p) { return p.context; });
        d["gives"] = column(rows, [](const PieceRow& p) { return p.gives; });
        return d;
    }

    nb::dict moves() const {
        const auto& rows = cluster_.moves();
        nb::dict d;
        d["request"] = column(rows, [](const MoveRow& m) { return m.request; });
        d["source"] = column(rows, [](const MoveRow& m) { return m.source; });
        d["target"] = column(rows, [](const MoveRow& m) { return m.target; });
        d["codec"] = column(rows, [](const MoveRow& m) { return m.codec; });
        d["start"] = column(rows, [](const MoveRow& m) { return m.start; });
        d["end"] = column(rows, [](const MoveRow& m) { return m.end; });
        return d;
    }

    nb::dict openings() const {
        const auto& rows = cluster_.openings();
        nb::dict d;
        d["engine"] = column(rows, [](const OpenRow& o) { return o.engine; });
        d["tokens"] = column(rows, [](const OpenRow& o) { return o.tokens; });
        d["start"] = column(rows, [](const OpenRow& o) { return o.start; });
        d["end"] = column(rows, [](const OpenRow& o) { return o.end; });
        return d;
    }

    double link_factor() const { return cluster_.link_factor(); }
    double store_factor() const { return cluster_.store_factor(); }
    Time link_free(int32_t source, int32_t target) const {
        return cluster_.link_free(source, target);
    }
    size_t engines() const { return cluster_.engines().size(); }

    nb::dict totals(int32_t engine) const {
        const Totals& t = one(engine).totals();
        nb::dict d;
        d["steps"] = t.steps;
        d["preemptions"] = t.preemptions;
        d["swaps"] = t.swaps;
        d["asked_tokens"] = t.asked_tokens;
        d["hit_tokens"] = t.hit_tokens;
        d["host_hits"] = t.host_hits;
        d["remote_hits"] = t.remote_hits;
        d["content_hits"] = t.content_hits;
        d["fetched_tokens"] = t.fetched_tokens;
        d["refilled_tokens"] = t.refilled_tokens;
        d["peak_blocks"] = t.peak_blocks;
        d["tokens"] = t.tokens;
        d["pieces"] = t.pieces;
        d["drafted"] = t.drafted;
        d["accepted"] = t.accepted;
        d["busy"] = t.busy;
        d["on"] = cluster_.on_for(engine);
        d["block_time"] = t.block_time;
        d["gap_time"] = t.gap_time;
        d["gaps"] = to_numpy(std::vector<int64_t>(t.gaps));
        nb::list padded;
        for (auto [tokens, context, steps] : one(engine).padded_steps())
            padded.append(nb::make_tuple(tokens, context, steps));
        d["padded"] = padded;
        return d;
    }

   private:
    static nb::object seconds(Time time) {
        return time == NEVER ? nb::object(nb::none()) : nb::cast(static_cast<double>(time) * 1e-12);
    }

    const Engine& one(int32_t engine) const {
        return cluster_.engines().at(static_cast<size_t>(engine));
    }

    Cluster cluster_;
};

}  // namespace

void serving(nb::module_& m) {
    options(m);
    hooks(m);
    inputs(m);
    nb::class_<Handle>(m, "ServingCluster")
        .def(nb::init<const Problem&>())
        .def("run", &Handle::run, nb::call_guard<nb::gil_scoped_release>())
        .def("given_up", &Handle::given_up)
        .def("now", &Handle::now)
        .def("matched", &Handle::matched)
        .def("engine", &Handle::engine)
        .def("tokens", &Handle::tokens)
        .def("state", &Handle::state)
        .def("running", &Handle::running)
        .def("waiting", &Handle::waiting)
        .def("step", &Handle::step)
        .def("openings", &Handle::openings)
        .def("link_factor", &Handle::link_factor)
        .def("store_factor", &Handle::store_factor)
        .def("division", &Handle::division)
        .def("link_free", &Handle::link_free)
        .def("engines", &Handle::engines)
        .def("request", &Handle::request)
        .def("requests", &Handle::requests)
        .def("steps", &Handle::steps)
        .def("pieces", &Handle::pieces)
        .def("moves", &Handle::moves)
        .def("totals", &Handle::totals);
}

}  // namespace chakra::bind
