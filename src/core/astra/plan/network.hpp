// How long a message takes: addresses, hops and the arithmetic of the two analytical models.
#pragma once

#include <vector>

#include "core/astra/model/model.hpp"

namespace chakra::astra {

// Closed forms over the network description; holds no state of a run.
class Topology {
   public:
    explicit Topology(const Network& network);

    uint32_t ranks() const { return ranks_; }
    // The first dimension in which two addresses differ. Only this one costs time.
    uint32_t first_difference(Rank a, Rank b) const;
    // Without congestion: the whole time of the message, hops plus one serialization.
    Tick delay(Rank a, Rank b, uint64_t bytes) const;
    Tick delay_along(uint32_t dim, uint32_t from, uint32_t to, uint64_t bytes) const;
    uint32_t hops(uint32_t dim, uint32_t from, uint32_t to) const;
    // The difference of the addresses from `a` to `b`, as a rank number: equal for equal moves.
    Rank difference(Rank a, Rank b) const;

    // With congestion (one dimension only): the time until a link has passed a message on, and
    // until it is free again.
    Tick pass(uint64_t bytes) const;
    Tick busy(uint64_t bytes) const;
    const Dimension& dim(uint32_t k) const { return dims_[k]; }
    size_t dims() const { return dims_.size(); }

   private:
    std::vector<Dimension> dims_;
    uint32_t ranks_ = 1;
};

}  // namespace chakra::astra
