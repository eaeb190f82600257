// From loose nodes to a graph in issue order, with every attribute a node needs checked.
#include <algorithm>
#include <numeric>

#include "core/astra/load/load.hpp"
#include "core/astra/model/error.hpp"

namespace chakra::astra {

namespace {

// Sizes beyond this overflow when a collective multiplies them by its ranks; no machine holds them.
constexpr uint64_t kMaxBytes = uint64_t{1} << 42;
constexpr uint64_t kMaxMicros = uint64_t{1} << 50;

// Checks and converts one node's attributes.
struct OpReader {
    const RawGraph& graph;
    const std::string& where;
    Rank rank;

    [[noreturn]] void fail(size_t i, const std::string& why) const {
        throw SimulationError(where + ", node " + std::to_string(graph.id[i]) + ": " + why);
    }

    const Attributes& attributes(size_t i) const {
        static const Attributes none;
        return graph.attributes[i] == kNone ? none : graph.rows[graph.attributes[i]];
    }

    void need(size_t i, uint32_t bit, const char* name) const {
        if ((attributes(i).has & bit) == 0) {
            fail(i, std::string("the attribute `") + name + "` is missing");
        }
    }

    Coll coll(size_t i) const {
        switch (attributes(i).comm_type) {
            case 0: return Coll::AllReduce;
            case 2: return Coll::AllGather;
            case 5: return Coll::Broadcast;
            case 6: return Coll::AllToAll;
            case 7: return Coll::ReduceScatter;
            default: break;
        }
        fail(i, "`comm_type` " + std::to_string(attributes(i).comm_type) +
                    " is not simulated; all-reduce (0), all-gather (2), broadcast (5), all-to-all "
                    "(6) and reduce-scatter (7) are");
    }

    Rank peer(size_t i, int64_t value) const {
        if (value < 0 || value >= static_cast<int64_t>(kNone)) {
            fail(i, "rank " + std::to_string(value) + " does not exist");
        }
        return static_cast<Rank>(value);
    }

    uint64_t bytes(size_t i, uint64_t value) const {
        if (value > kMaxBytes) fail(i, std::to_string(value) + " bytes are too many");
        return value;
    }

    Op collective(size_t i) const {
        const Attributes& a = attributes(i);
        need(i, Attributes::kCommType, "comm_type");
        need(i, Attributes::kCommSize, "comm_size");
        Op op;
        op.coll = coll(i);
        op.bytes = bytes(i, a.comm_size);
        op.group_id = a.group;
        if ((a.has & Attributes::kDims) != 0) op.dims = a.dims;
        return op;
    }

    bool names_own_rank(size_t i) const {
        bool send = graph.type[i] == static_cast<int32_t>(Kind::Send);
        bool recv = graph.type[i] == static_cast<int32_t>(Kind::Recv);
        uint32_t has = attributes(i).has;
        return (send && (has & Attributes::kSrc) != 0) || (recv && (has & Attributes::kDst) != 0);
    }

    Op message(size_t i, bool send) const {
        const Attributes& a = attributes(i);
        need(i, Attributes::kCommSize, "comm_size");
        need(i, Attributes::kTag, "comm_tag");
        need(i, send ? Attributes::kDst : Attributes::kSrc, send ? "comm_dst" : "comm_src");
        int64_t own = send ? a.src : a.dst;
        bool named = (a.has & (send ? Attributes::kSrc : Attributes::kDst)) != 0;
        if (rank != kNone && named && own != static_cast<int64_t>(rank)) {
            fail(i, std::string(send ? "`comm_src` of a send" : "`comm_dst` of a receive") +
                        " must be the rank itself, not " + std::to_string(own));
        }
        Op op;
        op.bytes = bytes(i, a.comm_size);
        op.tag = static_cast<uint32_t>(a.tag);
        op.peer = peer(i, send ? a.dst : a.src);
        return op;
    }

    Op memory(size_t i) const {
        need(i, Attributes::kTensorSize, "tensor_size");
        Op op;
        op.bytes = bytes(i, attributes(i).tensor_size);
        return op;
    }

    Op compute(size_t i) const {
        const Attributes& a = attributes(i);
        constexpr uint32_t both = Attributes::kNumOps | Attributes::kTensorSize;
        Op op;
        op.num_ops = a.num_ops;
        op.tensor_size = a.tensor_size;
        op.sized = (a.has & both) == both;
        return op;
    }

    // False where the node needs nothing but its duration.
    bool read(size_t i, Kind kind, Op& op) const {
        switch (kind) {
            case Kind::Collective: op = collective(i); return true;
            case Kind::Send:
            case Kind::Recv: op = message(i, kind == Kind::Send); return true;
            case Kind::Load:
            case Kind::Store: op = memory(i); return true;
            case Kind::Compute:
                if (graph.attributes[i] == kNone) return false;
                op = compute(i);
                return op.sized;
            default: return false;
        }
    }
};

// Rows of `graph` in ascending id. Of repeated ids the last one counts, if any may.
std::vector<uint32_t> in_order(const RawGraph& graph, const std::string& where, bool lenient) {
    std::vector<uint32_t> order(graph.id.size());
    std::iota(order.begin(), order.end(), 0u);
    auto by_id = [&](uint32_t a, uint32_t b) { return graph.id[a] < graph.id[b]; };
    if (!std::is_sorted(order.begin(), order.end(), by_id)) {
        std::stable_sort(order.begin(), order.end(), by_id);
    }
    std::vector<uint32_t> kept;
    kept.reserve(order.size());
    for (uint32_t row : order) {
        bool repeated = !kept.empty() && graph.id[kept.back()] == graph.id[row];
        if (!repeated) {
            kept.push_back(row);
            continue;
        }
        if (!lenient) {
            throw SimulationError(where + ", node " + std::to_string(graph.id[row]) +
                                  ": two nodes have this id (ASTRA-sim silently drops the first); "
                                  "make ids unique");
        }
        kept.back() = row;
    }
    return kept;
}

uint32_t row_of(const Body& body, uint64_t id) {
    // Ids mostly count up from the first, so the place is known without a search.
    uint64_t guess = id - body.ids.front();
    if (guess < body.size() && body.ids[guess] == id) return static_cast<uint32_t>(guess);
    auto it = std::lower_bound(body.ids.begin(), body.ids.end(), id);
    bool found = it != body.ids.end() && *it == id;
    return found ? static_cast<uint32_t>(it - body.ids.begin()) : kNone;
}

// Each node's distinct dependencies, as rows.
void read_parents(const RawGraph& graph, uint32_t row, const Body& body, const std::string& where,
                  std::vector<uint32_t>& out) {
    out.clear();
    for (uint64_t d = graph.first_dep[row]; d < graph.first_dep[row + 1]; ++d) {
        uint32_t parent = row_of(body, graph.deps[d]);
        if (parent == kNone) {
            throw SimulationError(where + ", node " + std::to_string(graph.id[row]) +
                                  ": depends on node " + std::to_string(graph.deps[d]) +
                                  ", which is not in the file");
        }
        out.push_back(parent);
    }
    if (out.size() < 2) return;
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

void link(const RawGraph& graph, const std::vector<uint32_t>& order, const std::string& where,
          Body& body) {
    size_t n = order.size();
    body.parents.resize(n);
    body.first_child.assign(n + 1, 0);
    std::vector<uint32_t> parents;
    std::vector<uint32_t> edges;
    for (size_t i = 0; i < n; ++i) {
        read_parents(graph, order[i], body, where, parents);
        body.parents[i] = static_cast<uint32_t>(parents.size());
        edges.insert(edges.end(), parents.begin(), parents.end());
        for (uint32_t p : parents) ++body.first_child[p + 1];
    }
    std::partial_sum(body.first_child.begin(), body.first_child.end(), body.first_child.begin());
    body.children.resize(edges.size());
    std::vector<uint32_t> next(body.first_child.begin(), body.first_child.end() - 1);
    size_t e = 0;
    for (size_t i = 0; i < n; ++i) {
        for (uint32_t k = 0; k < body.parents[i]; ++k, ++e) {
            body.children[next[edges[e]]++] = static_cast<uint32_t>(i);
        }
    }
}

void bind_body(Body& body, const std::unordered_map<int64_t, uint32_t>& rows, Rank rank) {
    for (uint32_t i = 0; i < body.size(); ++i) {
        if (body.kind[i] != Kind::Collective) continue;
        Op& op = body.ops[body.op[i]];
        auto it = rows.find(op.group_id);
        if (it == rows.end()) {
            throw SimulationError("rank " + std::to_string(rank) + ", node " +
                                  std::to_string(body.ids[i]) + ": communicator group " +
                                  std::to_string(op.group_id) +
                                  " is not defined; give it in the file of --groups");
        }
        op.group = it->second;
    }
}

void add_node(const OpReader& reader, uint32_t row, Body& body) {
    const RawGraph& graph = reader.graph;
    int32_t type = graph.type[row];
    if (type < 0 || type > static_cast<int32_t>(Kind::Collective)) {
        reader.fail(row, "node type " + std::to_string(type) + " is not in the schema");
    }
    if (graph.micros[row] > kMaxMicros) reader.fail(row, "its duration is too long");
    Op op;
    bool has = reader.read(row, static_cast<Kind>(type), op);
    body.ids.push_back(graph.id[row]);
    body.kind.push_back(static_cast<Kind>(type));
    body.cpu.push_back(graph.cpu[row]);
    body.micros.push_back(graph.micros[row]);
    body.op.push_back(has ? static_cast<uint32_t>(body.ops.size()) : kNone);
    if (has) body.ops.push_back(op);
    if (reader.names_own_rank(row)) body.own_rank = reader.rank;
}

}  // namespace

Body build(RawGraph&& graph, const std::string& where, Rank rank, bool lenient) {
    if (graph.id.empty()) throw SimulationError(where + ": has no nodes");
    if (graph.id.size() >= kNone || graph.deps.size() >= kNone) {
        throw SimulationError(where + ": has too many nodes or dependencies");
    }
    Body body;
    std::vector<uint32_t> order = in_order(graph, where, lenient);
    OpReader reader{graph, where, rank};
    for (uint32_t row : order) add_node(reader, row, body);
    link(graph, order, where, body);
    body.texts = std::move(graph.texts);
    return body;
}

void bind_groups(Program& program, std::vector<Group> groups) {
    program.groups.assign(1, {});
    program.groups[0].members.resize(program.ranks());
    std::iota(program.groups[0].members.begin(), program.groups[0].members.end(), 0u);
    program.groups.insert(program.groups.end(), groups.begin(), groups.end());
    std::unordered_map<int64_t, uint32_t> rows;
    for (uint32_t g = 0; g < program.groups.size(); ++g) rows[program.groups[g].id] = g;
    std::vector<Rank> first(program.bodies.size(), kNone);
    for (Rank r = program.ranks(); r-- > 0;) first[program.body_of[r]] = r;
    for (size_t b = 0; b < program.bodies.size(); ++b) {
        bind_body(*program.bodies[b], rows, first[b]);
    }
}

}  // namespace chakra::astra
