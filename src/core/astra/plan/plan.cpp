#include "core/astra/plan/plan.hpp"

#include <algorithm>
#include <bit>

#include "core/astra/model/error.hpp"

namespace chakra::astra {

namespace {

// A chunk's data after a phase: what the next phase starts from.
uint64_t after(const Phase& p, uint64_t data) {
    if (p.coll == Coll::ReduceScatter) return data / p.size;
    if (p.coll == Coll::AllGather) return data * p.size;
    return data;
}

bool takes_part(uint32_t dims, size_t dim) {
    return dim >= 32 || (dims >> dim & 1) != 0;
}

// Far above any real configuration; a typing error must not fill the memory.
constexpr uint64_t kMaxChunks = 1u << 22;

}  // namespace

const char* name_of(Coll coll) {
    static constexpr const char* names[] = {"all-reduce", "all-gather", "reduce-scatter",
                                            "all-to-all", "broadcast"};
    return names[static_cast<size_t>(coll)];
}

const char* name_of(Algo algo) {
    static constexpr const char* names[] = {"ring", "direct", "halvingDoubling",
                                            "doubleBinaryTree"};
    return names[static_cast<size_t>(algo)];
}

Tick Phase::reduction(uint32_t k) const {
    if (coll != Coll::ReduceScatter && coll != Coll::AllReduce) return -1;
    uint32_t cycle = window + reducible;
    uint32_t number = k < cycle ? 0 : k / cycle;  // mostly the first: spares a division
    if (k - number * cycle < window) return -1;
    if (coll == Coll::AllReduce && number % 2 != 0) return -1;
    return steps.empty() ? reduce : steps[k].reduce;
}

Planner::Planner(const System& system, const Network& network)
    : system_(system), network_(network) {
    for (const Dimension& d : network.dims) ranks_ *= d.size;
}

uint32_t Planner::plan(Coll coll, uint64_t bytes, uint32_t dims, uint32_t subgroup) {
    auto [it, fresh] =
        known_.try_emplace({coll, bytes, dims, subgroup}, static_cast<uint32_t>(plans_.size()));
    if (fresh) plans_.push_back(make(coll, bytes, dims, subgroup));
    return it->second;
}

Plan Planner::make(Coll coll, uint64_t bytes, uint32_t dims, uint32_t subgroup) const {
    Plan plan;
    cut(plan, coll, bytes);
    bool sub = subgroup != 0;
    uint32_t taking = sub ? kNone : dims;
    std::vector<Axis> along = axes(coll, subgroup);
    if (coll == Coll::AllReduce && system_.local_bw_aware) {
        there_and_back(plan, along, taking, sub);
    } else {
        plain(plan, coll, along, taking, sub);
    }
    if (plan.phases.empty()) {
        throw SimulationError(
            "it has nothing to do: no dimension with two or more members takes "
            "part, and ASTRA-sim would wait for it for ever");
    }
    return plan;
}

void Planner::cut(Plan& plan, Coll coll, uint64_t bytes) const {
    if (system_.splits == 0) {
        throw SimulationError(
            "`preferred-dataset-splits` is missing or 0 in the system file; "
            "give a number of chunks, for example 4");
    }
    plan.chunk_bytes = bytes / system_.splits;
    if (coll != Coll::AllGather && plan.chunk_bytes < ranks_) {
        plan.chunk_bytes = ranks_;
        bytes = plan.chunk_bytes * system_.splits;
    }
    if (plan.chunk_bytes == 0) {
        throw SimulationError("an all-gather of " + std::to_string(bytes) +
                              " bytes cannot be cut into " + std::to_string(system_.splits) +
                              " chunks (ASTRA-sim never returns); make it at least as many bytes "
                              "as `preferred-dataset-splits`");
    }
    uint64_t chunks = (bytes + plan.chunk_bytes - 1) / plan.chunk_bytes;
    if (chunks > kMaxChunks) {
        throw SimulationError(std::to_string(chunks) +
                              " chunks are too many; lower "
                              "`preferred-dataset-splits`");
    }
    plan.chunks = static_cast<uint32_t>(chunks);
}

void Planner::require_one_per_dimension(Coll coll, const std::vector<Implementation>& list) const {
    bool one = std::any_of(list.begin(), list.end(), [](auto& impl) { return impl.one; });
    bool fewer = list.size() < network_.dims.size() && !one && !system_.lenient;
    if (!fewer && list.size() <= network_.dims.size()) return;
    throw SimulationError(
        "`" + std::string(name_of(coll)) + "-implementation` has " + std::to_string(list.size()) +
        " entries and the network " + std::to_string(network_.dims.size()) +
        " dimensions; give one for each" +
        (fewer ? " (ASTRA-sim leaves the last dimensions out; --lenient does so)" : ""));
}

std::vector<Planner::Axis> Planner::axes(Coll coll, uint32_t subgroup) const {
    const auto& list = system_.implementations[static_cast<size_t>(coll)];
    if (list.empty()) {
        throw SimulationError(std::string("the system file has no `") + name_of(coll) +
                              "-implementation`");
    }
    if (subgroup != 0) {
        Implementation impl = list.size() == 1 ? list[0] : Implementation{};
        return {{subgroup, 1, false, impl}};
    }
    require_one_per_dimension(coll, list);
    std::vector<Axis> out;
    uint32_t stride = 1;
    for (size_t k = 0; k < list.size() && k < network_.dims.size(); ++k) {
        if (list[k].one) {
            out.push_back({ranks_, 1, true, list[k]});
            break;
        }
        out.push_back({network_.dims[k].size, stride, false, list[k]});
        stride *= network_.dims[k].size;
    }
    return out;
}

void Planner::plain(Plan& plan, Coll coll, const std::vector<Axis>& axes, uint32_t dims,
                    bool sub) const {
    uint64_t data = plan.chunk_bytes;
    for (size_t i = 0; i < axes.size(); ++i) {
        size_t k = coll == Coll::AllGather ? axes.size() - 1 - i : i;
        if (axes[k].size == 1 || !takes_part(dims, k)) continue;
        plan.phases.push_back(phase(coll, data, axes[k], static_cast<uint32_t>(k), sub));
        data = after(plan.phases.back(), data);
    }
}

void Planner::there_and_back(Plan& plan, const std::vector<Axis>& axes, uint32_t dims,
                             bool sub) const {
    std::vector<uint32_t> active;
    for (uint32_t k = 0; k < axes.size(); ++k) {
        if (axes[k].size > 1 && takes_part(dims, k)) active.push_back(k);
    }
    uint64_t data = plan.chunk_bytes;
    auto add = [&](Coll coll, uint32_t k, QueueRule rule) {
        plan.phases.push_back(phase(coll, data, axes[k], k, sub));
        plan.phases.back().rule = rule;
        data = after(plan.phases.back(), data);
    };
    for (size_t i = 0; i + 1 < active.size(); ++i) {
        add(Coll::ReduceScatter, active[i], QueueRule::First);
    }
    if (!active.empty()) add(Coll::AllReduce, active.back(), QueueRule::First);
    for (size_t i = active.size(); i-- > 1;) {
        add(Coll::AllGather, active[i - 1], QueueRule::Last);
    }
}

// What the algorithm of a phase cannot do. `asked` is the collective before a tree made it another.
void Planner::check(const Phase& p, Coll asked) const {
    bool tree = p.algo == Algo::Tree;
    if ((tree || p.algo == Algo::HalvingDoubling) && !std::has_single_bit(p.size)) {
        throw SimulationError(std::string(name_of(p.algo)) + " needs a power of two members, not " +
                              std::to_string(p.size) + "; configure ring or direct");
    }
    if (tree && asked != Coll::AllReduce && !system_.lenient) {
        throw SimulationError(std::string("doubleBinaryTree would run this ") + name_of(asked) +
                              " as an all-reduce; configure another algorithm, or give --lenient "
                              "for ASTRA-sim's answer");
    }
    if (tree && p.subgroup) {
        throw SimulationError(
            "doubleBinaryTree cannot run in a communicator group smaller than "
            "the network; configure another algorithm");
    }
}

Phase Planner::phase(Coll coll, uint64_t data, const Axis& axis, uint32_t dim,
                     bool subgroup) const {
    Phase p;
    p.algo = axis.impl.algo;
    p.coll = p.algo == Algo::Tree ? Coll::AllReduce : coll;
    p.subgroup = subgroup;
    p.whole = axis.whole;
    p.dim = dim;
    p.size = axis.size;
    p.stride = axis.stride;
    p.endpoint = subgroup ? 10 : system_.endpoint_delay;
    check(p, coll);
    if (p.algo == Algo::Direct) {
        uint32_t all = axis.size - 1;
        p.window = axis.impl.window == 0 ? all : std::min(axis.impl.window, all);
    }
    if (p.algo == Algo::HalvingDoubling) {
        halving(p, data);
    } else {
        sequence(p, data);
    }
    return p;
}

// Ring and direct: every message has the same size. A tree sends the whole data on every edge.
void Planner::sequence(Phase& p, uint64_t data) const {
    uint32_t n = p.size;
    p.bytes = p.algo == Algo::Tree || p.coll == Coll::AllGather ? data : data / n;
    bool reduces = p.coll == Coll::AllReduce || p.coll == Coll::ReduceScatter;
    p.reduce = reduces ? reduction(p.bytes) : 0;
    p.messages = p.coll == Coll::AllReduce ? 2 * (n - 1) : n - 1;
    bool ring = p.algo == Algo::Ring;
    if (ring && p.coll == Coll::AllToAll) {
        uint64_t messages = static_cast<uint64_t>(n) * (n - 1) / 2;
        if (messages >= kNone)
            throw SimulationError("a ring all-to-all of this many ranks is too long");
        p.messages = static_cast<uint32_t>(messages);
    }
    p.reducible = ring || p.subgroup ? (n - 1) * p.window : p.window;
}

void Planner::halving(Phase& p, uint64_t data) const {
    if (p.coll == Coll::AllToAll) {
        throw SimulationError("halvingDoubling cannot do an all-to-all; configure ring or direct");
    }
    uint32_t levels = static_cast<uint32_t>(std::countr_zero(p.size));
    auto add = [&](uint32_t mask, uint64_t bytes) {
        p.steps.push_back({mask, bytes, p.coll == Coll::AllGather ? 0 : reduction(bytes)});
    };
    if (p.coll == Coll::AllGather) {
        for (uint32_t k = 0; k < levels; ++k) add(p.size >> (k + 1), data << k);
    } else {
        uint64_t bytes = data;
        for (uint32_t k = 0; k < levels; ++k) add(1u << k, bytes /= 2);
        // The turn halves once more and doubles back, which drops an odd byte.
        bytes = bytes / 2 * 2;
        for (uint32_t k = 0; p.coll == Coll::AllReduce && k < levels; ++k) {
            add(p.size >> (k + 1), bytes << k);
        }
    }
    p.messages = static_cast<uint32_t>(p.steps.size());
    p.reducible = levels - 1;
}

// Three passes over local memory, each rounded down.
Tick Planner::reduction(uint64_t bytes) const {
    if (system_.local_mem_bw <= 0) {
        if (system_.lenient) return 0;
        throw SimulationError(
            "`local-mem-bw` is missing in the system file, so that reductions would "
            "cost nothing; give it in GB/s, or --lenient for ASTRA-sim's answer");
    }
    double pass = static_cast<double>(bytes) / (system_.local_mem_bw * 1e9) * 1e9;
    whole_ticks(3 * pass);  // must be countable too
    return 3 * whole_ticks(pass);
}

}  // namespace chakra::astra
