#include "core/astra/plan/fold.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "core/astra/plan/network.hpp"

namespace chakra::astra {

namespace {

// More pairs than this are not worth looking at: comparing would cost more than simulating.
constexpr uint64_t kMaxPairs = 1u << 26;

bool alike(const Op& a, const Op& b) {
    return a.coll == b.coll && a.dims == b.dims && a.tag == b.tag && a.bytes == b.bytes &&
           a.num_ops == b.num_ops && a.tensor_size == b.tensor_size && a.sized == b.sized;
}

// Equal but for ids, peers and group names.
bool alike(const Body& a, const Body& b) {
    auto same_op = [](const Op& x, const Op& y) { return alike(x, y); };
    return a.kind == b.kind && a.cpu == b.cpu && a.micros == b.micros && a.op == b.op &&
           a.first_child == b.first_child && a.children == b.children &&
           std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op);
}

uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

// A first guess of likeness, to compare only likely pairs.
uint64_t fingerprint(const Body& body) {
    uint64_t h = body.size();
    for (size_t i = 0; i < body.size(); ++i) {
        h = mix(h, static_cast<uint64_t>(body.kind[i]) << 1 | body.cpu[i]);
        h = mix(h, body.micros[i]);
    }
    for (const Op& op : body.ops) h = mix(h, op.bytes);
    return h;
}

// What a class's members have in common: own colour, then the colours, roles and distances of
// peers.
using Signature = std::vector<uint64_t>;

class Partition {
   public:
    Partition(const Program& program, const System& system, const Network& network)
        : program_(program), system_(system), network_(network), topology_(network) {}

    Folding run();

   private:
    void colour_bodies();
    void collect_uses();
    bool refine();
    Signature signature(Rank r) const;
    void along_dims(Rank r, uint32_t group, Signature& out) const;
    void along_group(Rank r, uint32_t slot, Signature& out) const;
    void add_peer(Rank me, Rank peer, uint32_t group, Signature& out) const;
    uint64_t pairs() const;
    uint32_t slot_at(Rank rank, uint32_t group) const;
    bool one_colour(const std::vector<Rank>& members, uint32_t group) const;
    bool even() const;

    const Program& program_;
    const System& system_;
    const Network& network_;
    Topology topology_;
    std::vector<uint32_t> colour_;
    uint32_t colours_ = 0;
    bool world_ = false;     // some collective runs on all ranks
    bool whole_ = false;     // … as one dimension over a network of several
    bool direct_ = false;    // some algorithm talks to everyone
    bool messages_ = false;  // some sends or receives
    std::vector<std::vector<uint32_t>> slots_;
};

void Partition::colour_bodies() {
    std::vector<uint32_t> of_body(program_.bodies.size());
    std::map<uint64_t, std::vector<uint32_t>> likely;
    std::vector<uint32_t> first;
    for (uint32_t b = 0; b < program_.bodies.size(); ++b) {
        const Body& body = *program_.bodies[b];
        auto& rivals = likely[fingerprint(body)];
        auto twin = std::find_if(rivals.begin(), rivals.end(), [&](uint32_t c) {
            return alike(*program_.bodies[first[c]], body);
        });
        if (twin == rivals.end()) {
            rivals.push_back(static_cast<uint32_t>(first.size()));
            first.push_back(b);
            of_body[b] = rivals.back();
        } else {
            of_body[b] = *twin;
        }
    }
    colours_ = static_cast<uint32_t>(first.size());
    colour_.resize(program_.ranks());
    for (Rank r = 0; r < program_.ranks(); ++r) colour_[r] = of_body[program_.body_of[r]];
}

void Partition::collect_uses() {
    slots_.resize(program_.ranks());
    std::vector<std::vector<uint32_t>> by_body(program_.bodies.size());
    for (size_t b = 0; b < program_.bodies.size(); ++b) {
        const Body& body = *program_.bodies[b];
        for (size_t i = 0; i < body.size(); ++i) {
            messages_ |= body.kind[i] == Kind::Send || body.kind[i] == Kind::Recv;
            if (body.kind[i] != Kind::Collective) continue;
            const Op& op = body.ops[body.op[i]];
            bool whole = program_.groups[op.group].members.size() == program_.ranks();
            world_ |= whole && op.coll != Coll::Broadcast;
            auto& used = by_body[b];
            if (op.group != 0 && std::find(used.begin(), used.end(), op.group) == used.end()) {
                used.push_back(op.group);
            }
        }
    }
    for (Rank r = 0; r < program_.ranks(); ++r) slots_[r] = by_body[program_.body_of[r]];
    for (const auto& list : system_.implementations) {
        for (const Implementation& impl : list) {
            whole_ |= impl.one && network_.dims.size() > 1;
            direct_ |= impl.algo == Algo::Direct;
        }
    }
}

uint32_t Partition::slot_at(Rank rank, uint32_t group) const {
    const auto& slots = slots_[rank];
    auto it = std::find(slots.begin(), slots.end(), group);
    return static_cast<uint32_t>(it - slots.begin()) + 1;
}

void Partition::add_peer(Rank me, Rank peer, uint32_t group, Signature& out) const {
    out.push_back(colour_[peer]);
    out.push_back(group == 0 ? 0 : slot_at(peer, group));
    uint32_t dim = topology_.first_difference(me, peer);
    uint32_t stride = 1;
    for (uint32_t k = 0; k < dim; ++k) stride *= topology_.dim(k).size;
    uint32_t n = topology_.dim(dim).size;
    out.push_back(static_cast<uint64_t>(dim) << 32 |
                  topology_.hops(dim, me / stride % n, peer / stride % n));
}

bool Partition::one_colour(const std::vector<Rank>& members, uint32_t group) const {
    return std::all_of(members.begin(), members.end(), [&](Rank r) {
        return colour_[r] == colour_[members[0]] &&
               (group == 0 || slot_at(r, group) == slot_at(members[0], group));
    });
}

// All pairs are equally far: no distances need be compared.
bool Partition::even() const {
    return topology_.dims() == 1 && topology_.dim(0).shape != Shape::Ring;
}

// Members at every distance along each dimension. With one colour there is nothing to tell apart:
// rings, full connections and switches look the same from each of their places.
void Partition::along_dims(Rank r, uint32_t group, Signature& out) const {
    uint32_t stride = 1;
    for (const Dimension& d : network_.dims) {
        uint32_t me = r / stride % d.size;
        for (uint32_t j = 1; j < d.size; ++j) {
            Rank around = r + ((me + j) % d.size - me) * stride;
            Rank across = r + (((me ^ j) < d.size ? me ^ j : me) - me) * stride;
            for (Rank peer : {around, across}) {
                out.push_back(colour_[peer]);
                out.push_back(group == 0 ? 0 : slot_at(peer, group));
            }
        }
        stride *= d.size;
    }
}

void Partition::along_group(Rank r, uint32_t group, Signature& out) const {
    const auto& members = program_.groups[group].members;
    uint32_t n = static_cast<uint32_t>(members.size());
    out.push_back(n);
    bool here = r < n && members[r] == r;  // all ranks in order
    auto it = here ? members.begin() + r : std::find(members.begin(), members.end(), r);
    out.push_back(it != members.end());
    if (it == members.end()) return;
    if (even() && one_colour(members, group)) return;
    uint32_t me = static_cast<uint32_t>(it - members.begin());
    for (uint32_t j = 1; j < n; ++j) {
        bool ring = j == 1 || j == n - 1;
        if (direct_ || ring) add_peer(r, members[(me + j) % n], group, out);
        if (std::has_single_bit(j) && (me ^ j) < n) add_peer(r, members[me ^ j], group, out);
    }
}

Signature Partition::signature(Rank r) const {
    Signature out{colour_[r]};
    if (world_ && colours_ > 1) along_dims(r, 0, out);
    if (world_ && whole_) along_group(r, 0, out);
    for (uint32_t group : slots_[r]) {
        const auto& members = program_.groups[group].members;
        if (members.size() < program_.ranks()) {
            along_group(r, group, out);
        } else if (!one_colour(members, group)) {
            along_dims(r, group, out);
        }
    }
    if (!messages_) return out;
    const Body& body = program_.body(r);
    for (size_t i = 0; i < body.size(); ++i) {
        if (body.kind[i] != Kind::Send && body.kind[i] != Kind::Recv) continue;
        Rank peer = body.ops[body.op[i]].peer;
        out.push_back(peer < program_.ranks() ? topology_.difference(r, peer) : kNone);
        out.push_back(peer < program_.ranks() ? colour_[peer] : kNone);
    }
    return out;
}

// One round; true when some class was split.
bool Partition::refine() {
    std::map<Signature, uint32_t> known;
    std::vector<uint32_t> next(colour_.size());
    for (Rank r = 0; r < program_.ranks(); ++r) {
        next[r] =
            known.try_emplace(signature(r), static_cast<uint32_t>(known.size())).first->second;
    }
    bool split = known.size() > colours_;
    colours_ = static_cast<uint32_t>(known.size());
    colour_ = std::move(next);
    return split;
}

uint64_t Partition::pairs() const {
    uint64_t per_rank = 1;
    for (const Dimension& d : network_.dims) per_rank += d.size;
    if (whole_) per_rank += program_.ranks();
    uint64_t total = per_rank * program_.ranks();
    for (const auto& slots : slots_) {
        for (uint32_t g : slots) total += program_.groups[g].members.size();
    }
    return total;
}

Folding Partition::run() {
    colour_bodies();
    collect_uses();
    bool uniform = colours_ == 1 && !whole_ && !messages_ &&
                   std::all_of(slots_.begin(), slots_.end(), [](auto& s) { return s.empty(); });
    if (!uniform) {
        if (pairs() > kMaxPairs)
            return unfolded(program_.ranks(), "too many pairs of ranks to compare");
        while (colours_ < program_.ranks() && refine()) {
        }
    }
    if (colours_ == program_.ranks()) {
        return unfolded(program_.ranks(), "no two ranks are alike");
    }
    Folding out;
    out.folded = true;
    out.actor_of.resize(program_.ranks());
    std::vector<uint32_t> actor_of_colour(colours_, kNone);
    for (Rank r = 0; r < program_.ranks(); ++r) {
        uint32_t& actor = actor_of_colour[colour_[r]];
        if (actor == kNone) {
            actor = static_cast<uint32_t>(out.representative.size());
            out.representative.push_back(r);
        }
        out.actor_of[r] = actor;
    }
    out.slots = std::move(slots_);
    return out;
}

bool uses_memory(const Program& program) {
    for (const auto& body : program.bodies) {
        for (Kind k : body->kind) {
            if (k == Kind::Load || k == Kind::Store) return true;
        }
    }
    return false;
}

// What no partition of ranks can be right about, or null.
const char* obstacle(const Program& program, const System& system, const Network& network,
                     const Memory& memory) {
    bool shared = memory.type == Memory::Type::PerNode || memory.type == Memory::Type::Pool;
    if (shared && uses_memory(program)) return "ranks share a remote memory";
    if (system.replay_only) return nullptr;
    if (system.rendezvous) return "rendezvous messages are not folded";
    if (!system.custom_by_node.empty()) return "custom collectives are not folded";
    for (const auto& custom : system.custom) {
        if (custom != nullptr) return "custom collectives are not folded";
    }
    bool long_ways = false;
    for (const auto& list : system.implementations) {
        for (const Implementation& impl : list) {
            if (impl.algo == Algo::Tree) return "doubleBinaryTree gives each rank its own place";
            long_ways |= impl.algo != Algo::Ring;
        }
    }
    if (!network.aware || network.dims[0].shape != Shape::Ring) return nullptr;
    for (const auto& body : program.bodies) {
        for (Kind k : body->kind) long_ways |= k == Kind::Send || k == Kind::Recv;
    }
    if (long_ways || program.groups.size() > 1) {
        return "messages of several ranks may share a link of the ring";
    }
    return nullptr;
}

}  // namespace

Folding unfolded(uint32_t ranks, const std::string& why_not) {
    Folding out;
    out.actor_of.resize(ranks);
    std::iota(out.actor_of.begin(), out.actor_of.end(), 0u);
    out.representative = out.actor_of;
    out.why_not = why_not;
    return out;
}

Folding fold(const Program& program, const System& system, const Network& network,
             const Memory& memory) {
    if (const char* why = obstacle(program, system, network, memory)) {
        return unfolded(program.ranks(), why);
    }
    return Partition(program, system, network).run();
}

}  // namespace chakra::astra
