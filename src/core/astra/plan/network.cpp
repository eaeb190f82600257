#include "core/astra/plan/network.hpp"

#include <algorithm>

#include "core/astra/model/error.hpp"

namespace chakra::astra {

Topology::Topology(const Network& network) : dims_(network.dims) {
    for (const Dimension& d : dims_) ranks_ *= d.size;
}

uint32_t Topology::first_difference(Rank a, Rank b) const {
    uint32_t k = 0;
    while (k + 1 < dims_.size() && a % dims_[k].size == b % dims_[k].size) {
        a /= dims_[k].size;
        b /= dims_[k].size;
        ++k;
    }
    return k;
}

Tick Topology::delay(Rank a, Rank b, uint64_t bytes) const {
    uint32_t dim = 0;
    while (dim + 1 < dims_.size() && a % dims_[dim].size == b % dims_[dim].size) {
        a /= dims_[dim].size;
        b /= dims_[dim].size;
        ++dim;
    }
    return delay_along(dim, a % dims_[dim].size, b % dims_[dim].size, bytes);
}

Tick Topology::delay_along(uint32_t dim, uint32_t from, uint32_t to, uint64_t bytes) const {
    const Dimension& d = dims_[dim];
    double latency = hops(dim, from, to) * d.latency;
    return whole_ticks(latency + static_cast<double>(bytes) / d.bandwidth);
}

uint32_t Topology::hops(uint32_t dim, uint32_t from, uint32_t to) const {
    const Dimension& d = dims_[dim];
    if (d.shape == Shape::FullyConnected) return 1;
    if (d.shape == Shape::Switch) return 2;
    uint32_t clockwise = to >= from ? to - from : to + d.size - from;
    return std::min(clockwise, d.size - clockwise);
}

Rank Topology::difference(Rank a, Rank b) const {
    Rank out = 0;
    Rank stride = 1;
    for (const Dimension& d : dims_) {
        out += (b % d.size + d.size - a % d.size) % d.size * stride;
        a /= d.size;
        b /= d.size;
        stride *= d.size;
    }
    return out;
}

Tick Topology::pass(uint64_t bytes) const {
    return whole_ticks(dims_[0].latency + static_cast<double>(bytes) / dims_[0].bandwidth);
}

Tick Topology::busy(uint64_t bytes) const {
    return whole_ticks(static_cast<double>(bytes) / dims_[0].bandwidth);
}

}  // namespace chakra::astra
