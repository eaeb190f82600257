// chakrakit.core: serving engines. The Python side (serving/cluster/native.py) checks every array
// first.
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>

#include "core/bindings/bind.hpp"
#include "core/serving/cluster.hpp"

namespace chakra::bind {

namespace {

using namespace serving;

template <class T>
std::span<const T> view(const nb::dict& d, const char* key) {
    auto array = nb::cast<In<T>>(d[key]);
    return {array.data(), array.size()};
}

template <class T>
T get(const nb::dict& d, const char* key) {
    return nb::cast<T>(d[key]);
}

std::vector<double> doubles(const nb::dict& d, const char* key) {
    auto span = view<double>(d, key);
    return {span.begin(), span.end()};
}

// None where the dictionary has none.
nb::object maybe(const nb::dict& d, const char* key) {
    return d.contains(key) ? nb::object(d[key]) : nb::none();
}

std::function<Time(int64_t)> times(const nb::object& ask) {
    return [ask](int64_t n) { return nb::cast<Time>(ask(n)); };
}

Requests requests_of(const nb::dict& d) {
    return {view<int64_t>(d, "arrival"), view<int64_t>(d, "prompt"),   view<int64_t>(d, "output"),
            view<int64_t>(d, "after"),   view<int64_t>(d, "priority"), view<int64_t>(d, "adapter"),
            view<int64_t>(d, "offsets"), view<uint64_t>(d, "ids"),     get<int64_t>(d, "unit")};
}

Options options_of(const nb::dict& d) {
    Options o;
    o.block_size = get<int64_t>(d, "block_size");
    o.num_blocks = get<int64_t>(d, "num_blocks");
    o.token_budget = get<int64_t>(d, "token_budget");
    o.max_requests = get<int64_t>(d, "max_requests");
    o.chunk_limit = get<int64_t>(d, "chunk_limit");
    o.discipline = static_cast<Discipline>(get<int>(d, "discipline"));
    o.chunked = get<bool>(d, "chunked");
    o.prefill_first = get<bool>(d, "prefill_first");
    o.prefix_cache = get<bool>(d, "prefix_cache");
    o.whole_prompt = get<bool>(d, "whole_prompt");
    o.safety_margin = get<double>(d, "safety_margin");
    o.output_reserve = get<double>(d, "output_reserve");
    o.swap_blocks = get<int64_t>(d, "swap_blocks");
    o.host_blocks = get<int64_t>(d, "host_blocks");
    o.ps_per_block = get<double>(d, "ps_per_block");
    o.depth = get<int32_t>(d, "depth");
    o.stages = get<int32_t>(d, "stages");
    o.host = get<Time>(d, "host");
    o.host_per_request = get<Time>(d, "host_per_request");
    o.host_per_token = get<Time>(d, "host_per_token");
    o.output = get<Time>(d, "output");
    o.serial = get<Time>(d, "serial");
    o.serial_per_request = get<Time>(d, "serial_per_request");
    o.frontend = get<Time>(d, "frontend");
    o.launch = get<Time>(d, "launch");
    o.warmup = get<Time>(d, "warmup");
    o.drafts = get<int64_t>(d, "drafts");
    o.acceptance = get<double>(d, "acceptance");
    o.max_adapters = get<int64_t>(d, "max_adapters");
    o.seed = get<uint64_t>(d, "seed");
    return o;
}

Attention attention_of(const nb::dict& d) {
    auto kind = get<std::string>(d, "kind");
    if (kind == "roofline") {
        return RooflineAttention{get<double>(d, "ps_per_pair"), get<double>(d, "ps_per_token"),
                                 get<double>(d, "ps_per_context"), get<double>(d, "least")};
    }
    if (kind == "grid") {
        GridAttention grid;
        const char* axes[] = {"axis0", "axis1", "axis2", "axis3"};
        for (size_t i = 0; i < 4; ++i) grid.axes[i] = doubles(d, axes[i]);
        grid.values = doubles(d, "values");
        const char* shares[] = {"share0", "share1", "share2"};
        for (size_t i = 0; i < 3; ++i) grid.share_axes[i] = doubles(d, shares[i]);
        grid.share = doubles(d, "share");
        return grid;
    }
    nb::object ask = d["ask"];
    return [ask](const Composition& c) {
        return nb::cast<double>(ask(c.prompts, c.prompt_tokens, c.prompt_work, c.decodes,
                                    c.decode_context, c.decode_longest));
    };
}

Padded padded_of(const nb::dict& d) {
    Padded p;
    p.tokens_multiple = get<int64_t>(d, "tokens_multiple");
    p.context_multiple = get<int64_t>(d, "context_multiple");
    p.most_tokens = get<int64_t>(d, "most_tokens");
    p.most_context = get<int64_t>(d, "most_context");
    p.capture = get<Time>(d, "capture");
    p.buffers = get<int64_t>(d, "buffers");
    nb::object ask = d["ask"];
    p.ask = [ask](int64_t q, int64_t kv) { return nb::cast<Time>(ask(q, kv)); };
    return p;
}

CostTerms terms_of(const nb::dict& d) {
    CostTerms t;
    t.dense = times(d["dense"]);
    t.head = times(d["head"]);
    t.attention = attention_of(get<nb::dict>(d, "attention"));
    t.captured = view<int64_t>(d, "captured");
    if (nb::object padded = maybe(d, "padded"); !padded.is_none()) {
        t.padded = padded_of(nb::cast<nb::dict>(padded));
    }
    t.adapter = get<Time>(d, "adapter");
    t.draft = get<Time>(d, "draft");
    return t;
}

std::vector<int32_t> listed(std::span<const int32_t> ids) {
    return {ids.begin(), ids.end()};
}

ClusterHooks hooks_of(const nb::dict& d) {
    ClusterHooks h;
    if (nb::object f = maybe(d, "admit"); !f.is_none()) {
        h.engine.admit = [f](int32_t e, int32_t r) { return nb::cast<bool>(f(e, r)); };
    }
    if (nb::object f = maybe(d, "batch"); !f.is_none()) {
        h.engine.batch = [f](int32_t e, std::span<const int32_t> run,
                             std::span<const int32_t> wait) {
            return nb::cast<std::vector<std::pair<int32_t, int64_t>>>(
                f(e, listed(run), listed(wait)));
        };
    }
    auto choose =
        [&](const char* name) -> std::function<int32_t(int32_t, std::span<const int32_t>)> {
        nb::object f = maybe(d, name);
        if (f.is_none()) return {};
        return [f](int32_t e, std::span<const int32_t> ids) {
            return nb::cast<int32_t>(f(e, listed(ids)));
        };
    };
    h.engine.preempt = choose("preempt");
    h.engine.evict = choose("evict");
    h.route = choose("route");
    h.place = choose("place");
    if (nb::object f = maybe(d, "scale"); !f.is_none()) {
        h.scale = [f](Time now) { return nb::cast<int32_t>(f(now)); };
        h.interval = get<Time>(d, "interval");
    }
    return h;
}

Problem problem_of(const nb::dict& d) {
    Problem p;
    p.requests = requests_of(get<nb::dict>(d, "requests"));
    for (nb::handle item : get<nb::list>(d, "pools")) {
        auto pool = nb::cast<nb::dict>(item);
        nb::object shared = maybe(pool, "shared");
        p.pools.push_back({static_cast<Role>(get<int>(pool, "role")),
                           get<int32_t>(pool, "engines"),
                           get<int32_t>(pool, "ranks"),
                           options_of(get<nb::dict>(pool, "options")),
                           terms_of(get<nb::dict>(pool, "cost")),
                           {}});
        if (!shared.is_none()) p.pools.back().shared = times(shared);
    }
    p.concurrency = get<int64_t>(d, "concurrency");
    p.router = static_cast<Router>(get<int>(d, "router"));
    p.handover = {get<double>(d, "handover_ps_per_token"), get<Time>(d, "handover_latency")};
    auto at = view<int64_t>(d, "fault_at"), duration = view<int64_t>(d, "fault_duration");
    auto engine = view<int64_t>(d, "fault_engine");
    for (size_t i = 0; i < at.size(); ++i) {
        p.faults.push_back({at[i], duration[i], static_cast<int32_t>(engine[i])});
    }
    p.hooks = hooks_of(get<nb::dict>(d, "hooks"));
    p.recording = {get<bool>(d, "record_steps"), get<Time>(d, "from"), get<Time>(d, "to"),
                   get<int64_t>(d, "audit_every")};
    return p;
}

template <class Row, class F>
auto column(const std::vector<Row>& rows, F field) {
    std::vector<int64_t> out;
    out.reserve(rows.size());
    for (const Row& row : rows) out.push_back(static_cast<int64_t>(field(row)));
    return to_numpy(std::move(out));
}

// A cluster with the Python objects whose memory it looks at.
class Handle {
   public:
    explicit Handle(nb::dict problem) : kept_(problem), cluster_(problem_of(problem)) {}

    void run() { cluster_.run(); }
    Time now() const { return cluster_.now(); }
    int64_t matched(int32_t engine, int32_t request) const { return one(engine).matched(request); }

    nb::tuple engine(int32_t engine) const {
        const Engine& e = one(engine);
        return nb::make_tuple(e.blocks().free(), e.blocks().total(), e.waiting().size(),
                              e.running().size());
    }

    nb::tuple request(int32_t request) const {
        const Progress& p = cluster_.progress().at(static_cast<size_t>(request));
        return nb::make_tuple(p.computed, p.generated, p.cached, p.blocks.size(), p.arrived,
                              p.first, p.preempted);
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
        d["start"] = column(rows, [](const MoveRow& m) { return m.start; });
        d["end"] = column(rows, [](const MoveRow& m) { return m.end; });
        return d;
    }

    nb::dict totals(int32_t engine) const {
        const Totals& t = one(engine).totals();
        nb::dict d;
        d["steps"] = t.steps;
        d["preemptions"] = t.preemptions;
        d["swaps"] = t.swaps;
        d["asked_tokens"] = t.asked_tokens;
        d["hit_tokens"] = t.hit_tokens;
        d["host_hits"] = t.host_hits;
        d["peak_blocks"] = t.peak_blocks;
        d["tokens"] = t.tokens;
        d["pieces"] = t.pieces;
        d["drafted"] = t.drafted;
        d["accepted"] = t.accepted;
        d["busy"] = t.busy;
        d["block_time"] = t.block_time;
        d["gaps"] = to_numpy(std::vector<int64_t>(t.gaps));
        return d;
    }

   private:
    const Engine& one(int32_t engine) const {
        return cluster_.engines().at(static_cast<size_t>(engine));
    }

    nb::dict kept_;
    Cluster cluster_;
};

}  // namespace

void serving(nb::module_& m) {
    nb::class_<Handle>(m, "ServingCluster")
        .def(nb::init<nb::dict>())
        .def("run", &Handle::run)
        .def("now", &Handle::now)
        .def("matched", &Handle::matched)
        .def("engine", &Handle::engine)
        .def("request", &Handle::request)
        .def("requests", &Handle::requests)
        .def("steps", &Handle::steps)
        .def("pieces", &Handle::pieces)
        .def("moves", &Handle::moves)
        .def("totals", &Handle::totals);
}

}  // namespace chakra::bind
