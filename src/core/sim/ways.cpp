#include "core/sim/ways.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <utility>

namespace chakra::sim {

namespace {

// A fixed 64-bit hash of integers (splitmix64), the same on every machine.
uint64_t mix(std::initializer_list<int64_t> parts) {
    uint64_t state = 0x9E3779B97F4A7C15;
    for (int64_t part : parts) {
        state ^= static_cast<uint64_t>(part);
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
        state ^= state >> 31;
    }
    return state;
}

int64_t modulo_of(int64_t value, int64_t n) {
    int64_t rest = value % n;
    return rest < 0 ? rest + n : rest;
}

// The place of the link from a to b among the links of all pairs of n.
int64_t pair_number(int64_t a, int64_t b, int64_t n) {
    return a * (n - 1) + b - (b > a);
}

class Full final : public Fabric {
   public:
    explicit Full(int64_t ports) : ports_(ports) {}
    void append(int64_t a, int64_t b, int64_t first, Way& way) override {
        way.push_back(first + pair_number(a, b, ports_));
    }

   private:
    int64_t ports_;
};

class Ring final : public Fabric {
   public:
    Ring(int64_t ports, bool closed)
        : n_(ports), cables_(closed ? ports : ports - 1), closed_(closed) {}
    void append(int64_t a, int64_t b, int64_t first, Way& way) override {
        int64_t ahead = modulo_of(b - a, n_), behind = n_ - ahead;
        // To the opposite port both ways are as long: half of the ports take each, so that none is
        // idle.
        bool forward = closed_ ? ahead < behind || (ahead == behind && a % 2 == 0) : b > a;
        for (int64_t at = a; at != b;) {
            int64_t before = at == 0 ? n_ - 1 : at - 1;
            way.push_back(first + (forward ? at : cables_ + before));
            at = forward ? (at + 1 == n_ ? 0 : at + 1) : before;
        }
    }

   private:
    int64_t n_, cables_;
    bool closed_;
};

class Tree final : public Fabric {
   public:
    Tree(std::vector<int64_t> arity, std::vector<int64_t> uplinks, std::vector<int64_t> switches,
         bool modulo)
        : arity_(std::move(arity)),
          uplinks_(std::move(uplinks)),
          switches_(std::move(switches)),
          modulo_(modulo) {
        for (int64_t children : arity_) ports_ *= children;
    }

    void append(int64_t a, int64_t b, int64_t first, Way& way) override {
        Way down{first + ports_ + b};
        way.push_back(first + a);
        int64_t plane = 0, size = arity_[0], planes = 1, base = first + 2 * ports_;
        for (size_t level = 0; level < uplinks_.size() && a / size != b / size; ++level) {
            int64_t q = uplinks_[level], count = switches_[level] * q;
            int64_t choice = chosen(a, b, level, planes);
            way.push_back(base + (a / size * planes + plane) * q + choice);
            down.push_back(base + count + (b / size * planes + plane) * q + choice);
            plane = plane * q + choice;
            size *= arity_[level + 1], planes *= q, base += 2 * count;
        }
        way.insert(way.end(), down.rbegin(), down.rend());
    }

   private:
    // Another digit of the destination at every level: one digit alone would leave most of the ways
    // of the upper levels unused, as all that reaches a switch there has the same.
    int64_t chosen(int64_t a, int64_t b, size_t level, int64_t planes) const {
        if (modulo_) return b / planes % uplinks_[level];
        auto hash = static_cast<int64_t>(mix({a, b, static_cast<int64_t>(level)}));
        return modulo_of(hash, uplinks_[level]);
    }

    std::vector<int64_t> arity_, uplinks_, switches_;
    bool modulo_;
    int64_t ports_ = 1;
};

// The cable between groups i and j hangs at router ((j - i - 1) mod groups) / h of group i, where a
// router has h cables to other groups.
class Dragonfly final : public Fabric {
   public:
    Dragonfly(int64_t groups, int64_t routers, int64_t hosts)
        : groups_(groups), routers_(routers), hosts_(hosts) {}

    void append(int64_t a, int64_t b, int64_t first, Way& way) override {
        int64_t ports = groups_ * routers_ * hosts_;
        int64_t from = a / hosts_, to = b / hosts_;
        int64_t near = from / routers_, far = to / routers_;
        way.push_back(first + a);
        if (near == far) {
            local(from, to, first + 2 * ports, way);
        } else {
            local(from, gate(near, far), first + 2 * ports, way);
            int64_t cables = first + 2 * ports + groups_ * routers_ * (routers_ - 1);
            way.push_back(cables + pair_number(near, far, groups_));
            local(gate(far, near), to, first + 2 * ports, way);
        }
        way.push_back(first + ports + b);
    }

   private:
    // The router of a group at which its cable to another hangs.
    int64_t gate(int64_t group, int64_t other) const {
        int64_t each = (groups_ - 1 + routers_ - 1) / routers_;
        return group * routers_ + modulo_of(other - group - 1, groups_) / each;
    }
    void local(int64_t from, int64_t to, int64_t first, Way& way) const {
        if (from == to) return;
        int64_t x = from % routers_, y = to % routers_;
        way.push_back(first + from / routers_ * routers_ * (routers_ - 1) +
                      pair_number(x, y, routers_));
    }

    int64_t groups_, routers_, hosts_;
};

// At each hop the link is the hash's choice among those that lead on a shortest path, in the order
// of their numbers; of unlike paths only those whose narrowest link is the widest are equals.
class Graph final : public Fabric {
   public:
    Graph(int64_t vertices, std::vector<int64_t> src, std::vector<int64_t> dst,
          std::vector<double> bandwidth, std::vector<std::string> names)
        : src_(std::move(src)),
          dst_(std::move(dst)),
          bandwidth_(bandwidth.begin(), bandwidth.end()),
          names_(std::move(names)),
          out_(vertices),
          into_(vertices),
          towards_(vertices) {
        for (size_t link = 0; link < src_.size(); ++link) {
            out_.at(src_[link]).push_back(static_cast<int64_t>(link));
            into_.at(dst_.at(link)).push_back(static_cast<int64_t>(link));
        }
    }

    void append(int64_t a, int64_t b, int64_t first, Way& way) override {
        const auto& [hops, width] = towards(b);
        if (hops[a] < 0)
            throw std::invalid_argument("no way from " + names_.at(a) + " to " + names_.at(b) +
                                        "; add links");
        int64_t at = a;
        float narrowest = std::numeric_limits<float>::infinity();
        for (int64_t hop = 0; at != b; ++hop) {
            ways_.clear();
            float widest = -1;
            for (int64_t link : out_[at]) {
                if (hops[dst_[link]] != hops[at] - 1) continue;
                float through = std::min({narrowest, bandwidth_[link], width[dst_[link]]});
                if (through > widest) ways_.clear();
                widest = std::max(widest, through);
                if (through == widest) ways_.push_back(link);
            }
            int64_t link = ways_[mix({a, b, hop}) % ways_.size()];
            narrowest = std::min(narrowest, bandwidth_[link]);
            way.push_back(first + link);
            at = dst_[link];
        }
    }

   private:
    // By vertex, hops to a target, -1 where there is no path; and of the shortest paths there the
    // widest one's narrowest link.
    struct Towards {
        std::vector<int32_t> hops;
        std::vector<float> width;
    };

    // By one search from the target.
    const Towards& towards(int64_t target) {
        auto& [hops, width] = towards_[target];
        if (!hops.empty()) return towards_[target];
        hops.assign(towards_.size(), -1);
        width.assign(towards_.size(), -1);
        hops[target] = 0;
        width[target] = std::numeric_limits<float>::infinity();
        std::vector<int64_t> reached{target};
        for (size_t i = 0; i < reached.size(); ++i)
            for (int64_t link : into_[reached[i]]) {
                int64_t next = src_[link];
                if (hops[next] < 0) {
                    hops[next] = hops[reached[i]] + 1;
                    reached.push_back(next);
                }
                if (hops[next] == hops[reached[i]] + 1)
                    width[next] =
                        std::max(width[next], std::min(bandwidth_[link], width[reached[i]]));
            }
        return towards_[target];
    }

    std::vector<int64_t> src_, dst_;
    std::vector<float> bandwidth_;
    std::vector<std::string> names_;
    std::vector<std::vector<int64_t>> out_, into_;  // links, by vertex
    std::vector<Towards> towards_;                  // by target; empty until it is asked for
    Way ways_;
};

}  // namespace

std::shared_ptr<Fabric> full(int64_t ports) {
    return std::make_shared<Full>(ports);
}

std::shared_ptr<Fabric> ring(int64_t ports, bool closed) {
    return std::make_shared<Ring>(ports, closed);
}

std::shared_ptr<Fabric> tree(std::vector<int64_t> arity, std::vector<int64_t> uplinks,
                             std::vector<int64_t> switches, bool modulo) {
    return std::make_shared<Tree>(std::move(arity), std::move(uplinks), std::move(switches),
                                  modulo);
}

std::shared_ptr<Fabric> dragonfly(int64_t groups, int64_t routers, int64_t hosts) {
    return std::make_shared<Dragonfly>(groups, routers, hosts);
}

std::shared_ptr<Fabric> graph(int64_t vertices, std::vector<int64_t> src, std::vector<int64_t> dst,
                              std::vector<double> bandwidth, std::vector<std::string> names) {
    return std::make_shared<Graph>(vertices, std::move(src), std::move(dst), std::move(bandwidth),
                                   std::move(names));
}

Ways::Ways(std::vector<Dimension> dimensions, int64_t devices)
    : dimensions_(std::move(dimensions)), devices_(devices) {}

void Ways::append(int64_t src, int64_t dst, Way& way) const {
    if (std::min(src, dst) < 0 || std::max(src, dst) >= devices_)
        throw std::out_of_range("a way between devices that the machine does not have");
    int64_t at = src;
    for (size_t k = lowest(src, dst); k < dimensions_.size(); ++k)
        if (dimensions_[k].place(at) != dimensions_[k].place(dst)) at = cross(k, at, dst, way);
}

// The innermost dimension that a way uses: those inside one that is no rails are not crossed.
size_t Ways::lowest(int64_t src, int64_t dst) const {
    size_t lowest = 0;
    for (size_t k = 0; k < dimensions_.size(); ++k) {
        const Dimension& d = dimensions_[k];
        if (d.joins != Joins::kRails && d.place(src) != d.place(dst)) lowest = k;
    }
    return lowest;
}

// Goes to the destination's place in dimension k; returns the device that is reached.
int64_t Ways::cross(size_t k, int64_t at, int64_t dst, Way& way) const {
    const Dimension& d = dimensions_[k];
    int64_t first = d.first_link + d.copy(at) * d.copy_links;
    if (d.joins == Joins::kRails) {
        d.fabric->append(d.place(at), d.place(dst), first, way);
        return at + (d.place(dst) - d.place(at)) * d.inner;
    }
    int64_t target = at / d.span() * d.span() + dst % d.span();
    if (d.joins == Joins::kFlat) {
        d.fabric->append(at % d.span(), target % d.span(), first, way);
        return target;
    }
    way.push_back(d.attachments + at);
    d.fabric->append(d.place(at), d.place(target), first, way);
    way.push_back(d.attachments + devices_ + target);
    return target;
}

int Ways::outermost(int64_t src, int64_t dst) const {
    int out = -1;
    for (size_t k = 0; k < dimensions_.size(); ++k)
        if (dimensions_[k].place(src) != dimensions_[k].place(dst)) out = static_cast<int>(k);
    return out;
}

}  // namespace chakra::sim
