// Max-min fair rates of flows over links, kept up to date as flows come and go.
//
// Rates are those of progressive filling. Classes are filled from the highest to the lowest, each
// on what the ones above leave. Within a class all levels rise together; in every round the links
// with the lowest level (equal up to 1 part in 10^9) are full, and their flows of that class stay
// at it: a flow's rate is its weight times its level. What flows use of a link is summed exactly,
// in fixed point, so that rates depend on counts only, never on the order of flows or links, nor on
// whether some rates were known before: symmetric networks get equal rates to the last bit.
//
// A change is followed where it leads and no further. Filling begins on the links of the flows that
// came or went (the region), at the lowest level at which anything can differ. A flow of the region
// that another link holds at its level stays there. Only a flow whose level changes, or whose own
// full link has room now, takes its other links into the region. Everything else keeps its rate.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/sim/plans.hpp"

namespace chakra::sim {

class Fairness {
   public:
    // A flow on a link.
    struct Member {
        double level;  // kFresh until it first has a rate
        int32_t flow;
        int32_t slot;   // where `places_` has its place on this link
        int32_t owner;  // the caller's name for what the flow belongs to
        Rank rank;
    };

    // Changes that have not been settled.
    struct Changes {
        std::vector<int32_t> links;
    };

    explicit Fairness(const Topology& topology);

    // A flow with a route of one link or more; its number is free again once it is removed.
    int32_t add(int32_t route, int32_t owner, Rank rank = {});
    void remove(int32_t flow);
    void set_bandwidth(int32_t link, double bandwidth);

    // Shares anew what changed. `changed` then names the flows whose rate is another, `full` the
    // links that hold some flow back, of those that were looked at.
    void settle();
    const std::vector<int32_t>& changed() const { return changed_; }
    const std::vector<int32_t>& full() const { return full_; }

    double rate(int32_t flow) const { return flows_[flow].level * flows_[flow].rank.weight; }
    double bandwidth(int32_t link) const { return levels_[link].bandwidth; }
    std::span<const Member> on(int32_t link) const { return links_[link].members; }
    std::span<const int32_t> unsettled() const { return dirty_; }

    // Puts changes aside, for others to be settled first that no flow ties to them.
    Changes set_aside();
    void put_back(Changes changes);

   private:
    using Fixed = __int128;  // a sum of rates with 80 binary places
    static constexpr double kFresh = -1;
    static constexpr double kNothing = std::numeric_limits<double>::infinity();
    static constexpr double kStale = -1;
    static constexpr size_t kStretch = 32;

    // What has become of a flow while rates are found; counted from `stamp_`, below it: not seen.
    enum State : uint32_t { kPending, kReleased, kDone, kStates };

    struct Flow {
        int64_t first = 0;  // its links in the topology: the first one, and how many
        int32_t hops = 0;
        int32_t held_by = -1;  // the link that holds it at its level
        double level = kFresh;
        double next = 0;  // its level when the present changes are settled, and what holds it then
        int32_t next_holder = -1;
        Rank rank;
        int32_t slots = 0, room = 0;  // the first of its slots in `places_`, and how many it has
    };

    // A link and what changed on it. One cache line: flows come and go more often than anything.
    struct alignas(64) Link {
        Fixed taken = 0;  // the sum of the rates of its flows
        std::vector<Member> members;
        int64_t weight = 0;       // of all its flows
        double floor = kNothing;  // changed: the lowest level of what ended
        int32_t cluster = -1;     // changed: a link that a changed flow ties to this one
        bool changed = false, fresh = false;
        uint8_t top = 0;  // changed: the highest class among what changed
    };

    // A link while rates are found.
    struct Level {
        Fixed used = 0;  // by those that have their rate
        double bandwidth = 0;
        int64_t open = 0;    // the weight of the flows without a rate
        int64_t frozen = 0;  // of those, what gets its rate in this round
        int32_t place = kOutside;
    };
    static constexpr int32_t kOutside = -1,
                             kIdle = -2;  // `place`: outside the region, no open flow

    struct Pending {
        double level;
        int32_t flow;
        bool operator<(const Pending& other) const { return level > other.level; }
    };

    static Fixed fixed(double rate);
    double share_of(const Level& link) const;
    std::span<const int32_t> links_of(const Flow& flow) const;

    void touch(int32_t link, int32_t tied_to, uint8_t priority);
    void tie(int32_t cluster, int32_t other);
    int32_t cluster_of(int32_t link);
    void order_clusters();
    std::span<const int32_t> cluster(size_t i) const;
    bool fill(std::span<const int32_t> seeds);
    void fill_joined(size_t i);
    double begin(std::span<const int32_t> seeds);
    void fill_class();
    void open_class(int32_t link);
    void enter(int32_t link);
    void open(Level& link, const Member& member);
    void watch(int32_t link);
    void set_share(size_t place, double share);
    double least_of(size_t stretch);
    double lowest_share(size_t first);
    void find_tight();
    void collect_held();
    void release_held();
    void release(int32_t flow);
    void release_all();
    void freeze_tight();
    void freeze(int32_t flow, int32_t link);
    void keep_rest();
    void take(Level& link, int32_t number, Fixed rate, int64_t weight);
    void refresh();
    void commit();
    void leave_region();

    const Topology& topology_;
    std::vector<Link> links_;
    std::vector<Flow> flows_;
    std::vector<uint32_t> states_;  // by flow: apart, since every link of a flow asks for it
    std::vector<Level> levels_;     // by link
    std::vector<int32_t>
        places_;  // of each flow on each link of its route, among the members there
    std::vector<int32_t> free_, dirty_, changed_, full_;
    uint64_t classes_ = 0;  // of all flows so far
    int64_t clusters_ = 0;  // of the changed links, or more where that is not known
    bool single_ = false;   // whether there is one cluster, which no region can leave

    std::vector<int32_t> ordered_;  // the links to settle, cluster by cluster
    std::vector<int64_t> first_;    // where each cluster begins, and an end

    // One filling: its class and level, and the region.
    uint32_t stamp_ = 0;
    uint8_t class_ = 0;
    uint64_t lower_ = 0;  // classes below that have flows in the region
    double level_ = 0;
    int32_t cluster_ = -1, met_ = -1;  // met: another cluster that the region has reached
    std::vector<int32_t> region_, active_, tight_, touched_, frozen_, held_, next_full_;
    std::vector<double> share_;     // of each active link: the level its open flows would get
    std::vector<double> least_;     // of each stretch of them; kStale where it is to be found anew
    std::vector<Pending> pending_;  // a heap
    bool eager_ = false;            // whether flows are released as soon as they are seen
};

}  // namespace chakra::sim
