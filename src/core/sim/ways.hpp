// The ways of messages through a machine: the links from one device to another.
//
// A fabric joins ports in one shape and knows each way by arithmetic, or by search where it has no
// shape. Where several shortest ways exist, the choice is ECMP's hash of the pair, or the digits of
// the destination, one for each level (`modulo`), which spreads regular traffic evenly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace chakra::sim {

using Way = std::vector<int64_t>;  // numbers of links, in order

class Fabric {
   public:
    virtual ~Fabric() = default;
    // Appends the links from port a to port b, which differ; `first` is the fabric's first link.
    virtual void append(int64_t a, int64_t b, int64_t first, Way& way) = 0;
};

// A link from every port to every other.
std::shared_ptr<Fabric> full(int64_t ports);
// Ports in a circle, or in a line; the shorter way, clockwise on ties.
std::shared_ptr<Fabric> ring(int64_t ports, bool closed);
// Up to the lowest common switch, and down. A switch of level i has `uplinks[i]` links up.
std::shared_ptr<Fabric> tree(std::vector<int64_t> arity, std::vector<int64_t> uplinks,
                             std::vector<int64_t> switches, bool modulo);
// Port, router, at most one local hop, the cable, at most one local hop, port.
std::shared_ptr<Fabric> dragonfly(int64_t groups, int64_t routers, int64_t hosts);
// Any links between vertices, of which the first are ports; `names` are for errors.
std::shared_ptr<Fabric> graph(int64_t vertices, std::vector<int64_t> src, std::vector<int64_t> dst,
                              std::vector<double> bandwidth, std::vector<std::string> names);

enum class Joins : uint8_t { kRails, kFlat, kGateways };

// One level of a machine: `size` places of `inner` devices each, joined by copies of a fabric.
struct Dimension {
    std::shared_ptr<Fabric> fabric;
    int64_t size = 1, inner = 1;
    Joins joins = Joins::kRails;
    int64_t first_link = 0;   // of its copies
    int64_t copy_links = 0;   // of one copy
    int64_t attachments = 0;  // the first link from a device to its gateway; those back follow

    int64_t span() const { return inner * size; }
    int64_t place(int64_t device) const { return device / inner % size; }
    int64_t copy(int64_t device) const {
        int64_t outer = device / span();
        return joins == Joins::kRails ? outer * inner + device % inner : outer;
    }
};

class Ways {
   public:
    Ways(std::vector<Dimension> dimensions, int64_t devices);

    int64_t devices() const { return devices_; }
    // Appends the links from one device to another, dimension by dimension from the inside out.
    void append(int64_t src, int64_t dst, Way& way) const;
    // The dimension whose port a message leaves by; -1 where it stays on its device.
    int outermost(int64_t src, int64_t dst) const;

   private:
    size_t lowest(int64_t src, int64_t dst) const;
    int64_t cross(size_t k, int64_t at, int64_t dst, Way& way) const;

    std::vector<Dimension> dimensions_;
    int64_t devices_;
};

// The sum of what the links of a way have, in their order: every latency of a way is this one.
template <class Link>
double sum_over(std::span<const Link> way, std::span<const double> values) {
    double sum = 0;
    for (Link link : way) sum += values[link];
    return sum;
}

}  // namespace chakra::sim
