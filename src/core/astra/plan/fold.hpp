// Which ranks are certain to behave alike, so that one of them can be simulated for all.
#pragma once

#include <string>
#include <vector>

#include "core/astra/model/model.hpp"

namespace chakra::astra {

// Classes of ranks. `actor_of[r]` is r's class, `representative[c]` its lowest rank.
// `slots[r]` lists the groups r uses in order of first use: equal places mean equal roles.
struct Folding {
    std::vector<uint32_t> actor_of;
    std::vector<Rank> representative;
    std::vector<std::vector<uint32_t>> slots;
    bool folded = false;
    std::string why_not;
};

// Every rank its own class.
Folding unfolded(uint32_t ranks, const std::string& why_not);

// The certificate. Two ranks share a class only if
//  - their graphs are equal but for ids, peers and group names;
//  - in every group they use, the members at equal distances from them are again alike, give the
//    group the same role, and are equally far in the network;
//  - their point-to-point peers lie at equal address differences and are again alike;
//  - no resource is shared by ranks (memory pools, links that several senders cross).
// It is the coarsest such partition. What it cannot exclude is a tie: two events that meet at one
// tick in an order that depends on rank numbers. The engine watches for those and gives up folding.
Folding fold(const Program& program, const System& system, const Network& network,
             const Memory& memory);

}  // namespace chakra::astra
