// Max-min fair rates by progressive filling.
//
// In every round the links with the smallest fair share (equal up to 1 part in 10^9) give it to all
// their flows that have no rate yet. What flows use of a link is summed exactly, in fixed point, so
// that rates depend on counts only, never on the order of flows or links, nor on whether some rates
// were known before: symmetric networks get equal rates to the last bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace chakra::sim {

// Flows over links, both numbered from 0; `offsets` and `links` give each flow's links.
struct Sharing {
    using Fixed = __int128;  // a sum of rates with kFixedPoint binary places
    static Fixed fixed(double rate);

    std::vector<double> capacity;  // by link
    std::vector<Fixed> used;       // by link: what flows with known rates use, which are not given
    std::vector<int64_t> offsets;  // by flow, one more at the end
    std::vector<int32_t> links;    // of all flows
    std::vector<double> rate;      // by flow, the result
    std::vector<int32_t> full;     // links that hold some flow back, the result
    std::vector<int64_t> of_link;  // offsets into link_flows, by link
    std::vector<int32_t> link_flows;

    void clear();
    void solve();

   private:
    void index_links();
    double smallest_share();
    void give(double share);
    void freeze(int32_t flow, double share);
    void drop(int32_t link);
    double share_of(int32_t link) const;

    std::vector<int32_t> open_;     // flows without a rate, by link
    std::vector<int32_t> frozen_;   // flows given a rate in this round, by link
    std::vector<int32_t> active_;   // links with open flows
    std::vector<double> share_;     // of each active link: what each of its open flows would get
    std::vector<int32_t> place_;    // by link: where it is among the active ones
    std::vector<int32_t> touched_;  // links with frozen flows
    std::vector<int32_t> tight_;    // links with the smallest share
};

}  // namespace chakra::sim
