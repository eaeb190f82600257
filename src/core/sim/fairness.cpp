#include "core/sim/fairness.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace chakra::sim {

namespace {
constexpr double kTie = 1 + 1e-9;
constexpr double kSlack = 4e-9;  // more than what is taken as equal
constexpr double kOne = 0x1p80;  // 1 in fixed point
constexpr double kNoise = 1e-12;

// Beyond this many flows that may stay as they are, or this share of all, finding out costs more
// than sharing them anew.
constexpr size_t kMostPending = 1000, kPartPending = 8;
// Clusters whose regions meet are joined one by one so often, then all of them.
constexpr int kMostMeetings = 3;
}  // namespace

Fairness::Fairness(const Topology& topology)
    : topology_(topology), links_(topology.links()), levels_(topology.links()) {
    for (size_t l = 0; l < levels_.size(); ++l) levels_[l].bandwidth = topology.bandwidth[l];
}

// The same as a cast of rate * 2^80, which the compiler leaves to a slow function.
Fairness::Fixed Fairness::fixed(double rate) {
    auto bits = std::bit_cast<uint64_t>(rate);
    auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
    int shift = exponent - 1075 + 80;  // of the 53 bits as a whole number
    if (std::signbit(rate) || exponent == 0 || shift > 73 || shift < -63)
        return static_cast<Fixed>(rate * kOne);
    auto mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
    return shift >= 0 ? static_cast<Fixed>(mantissa) << shift
                      : static_cast<Fixed>(mantissa >> -shift);
}

double Fairness::share_of(const Level& link) const {
    double left = link.bandwidth - static_cast<double>(link.used) / kOne;
    // What higher classes use up entirely may seem to leave a rounding error.
    return (left > link.bandwidth * kNoise ? left : 0.0) / static_cast<double>(link.open);
}

std::span<const int32_t> Fairness::links_of(const Flow& flow) const {
    return std::span(topology_.route_links).subspan(flow.first, flow.hops);
}

// --- changes ------------------------------------------------------------------------------------

int32_t Fairness::add(int32_t route, int32_t owner, Rank rank) {
    if (free_.empty()) {
        free_.push_back(static_cast<int32_t>(flows_.size()));
        flows_.emplace_back();
        states_.push_back(0);
    }
    int32_t f = free_.back();
    free_.pop_back();
    classes_ |= uint64_t{1} << rank.priority;
    Flow& flow = flows_[f];
    auto links = topology_.route(route);
    auto hops = static_cast<int32_t>(links.size());
    flow.first = topology_.route_offsets[route];
    flow.hops = hops;
    flow.level = kFresh;
    flow.held_by = -1;
    flow.rank = rank;
    if (hops > flow.room) {
        flow.slots = static_cast<int32_t>(places_.size());
        flow.room = hops;
        places_.resize(places_.size() + links.size());
    }
    for (int32_t hop = 0; hop < hops; ++hop) {
        Link& link = links_[links[hop]];
        places_[flow.slots + hop] = static_cast<int32_t>(link.members.size());
        link.members.push_back({kFresh, f, flow.slots + hop, owner, rank});
        link.weight += rank.weight;
        touch(links[hop], links[0], rank.priority);
        link.fresh = true;
    }
    return f;
}

void Fairness::remove(int32_t f) {
    Flow& flow = flows_[f];
    auto links = links_of(flow);
    Fixed freed = fixed(rate(f));
    for (size_t hop = 0; hop < links.size(); ++hop) {
        Link& link = links_[links[hop]];
        auto& members = link.members;
        int32_t place = places_[flow.slots + static_cast<int32_t>(hop)];
        link.taken -= freed;
        link.weight -= flow.rank.weight;
        members[place] = members.back();
        places_[members[place].slot] = place;
        members.pop_back();
        touch(links[hop], links[0], flow.rank.priority);
        link.floor = std::min(link.floor, flow.level);
    }
    free_.push_back(f);
}

void Fairness::set_bandwidth(int32_t link, double bandwidth) {
    levels_[link].bandwidth = bandwidth;
    touch(link, link, kClasses - 1);
    links_[link].floor = 0;
}

void Fairness::touch(int32_t number, int32_t tied_to, uint8_t priority) {
    Link& link = links_[number];
    if (!link.changed) {
        link.changed = true;
        link.fresh = false;
        link.floor = kNothing;
        link.top = 0;
        link.cluster = number;
        dirty_.push_back(number);
        ++clusters_;
    }
    link.top = std::max(link.top, priority);
    if (link.cluster != links_[tied_to].cluster) tie(cluster_of(number), cluster_of(tied_to));
}

void Fairness::tie(int32_t cluster, int32_t other) {
    if (cluster == other) return;
    links_[cluster].cluster = other;
    --clusters_;
}

int32_t Fairness::cluster_of(int32_t link) {
    while (links_[link].cluster != link) {
        links_[link].cluster = links_[links_[link].cluster].cluster;
        link = links_[link].cluster;
    }
    return link;
}

Fairness::Changes Fairness::set_aside() {
    for (int32_t link : dirty_) links_[link].changed = false;
    clusters_ = 0;
    return {std::exchange(dirty_, {})};
}

void Fairness::put_back(Changes changes) {
    clusters_ += 1 + static_cast<int64_t>(changes.links.size());  // at the most, and more than one
    for (int32_t number : changes.links) {
        Link& link = links_[number];
        if (!link.changed) {
            link.changed = true;
            dirty_.push_back(number);
        } else {  // it changed again, and what was known of the first time is gone
            link.floor = 0;
            link.top = kClasses - 1;
        }
    }
}

// --- settling -----------------------------------------------------------------------------------

void Fairness::settle() {
    changed_.clear();
    full_.clear();
    order_clusters();
    for (size_t i = 0; i + 1 < first_.size(); ++i) {
        std::span<const int32_t> seeds = cluster(i);
        if (!links_[seeds[0]].changed) continue;  // settled together with one before it
        if (!fill(seeds)) fill_joined(i);
        for (int32_t link : seeds) links_[link].changed = false;
    }
}

std::span<const int32_t> Fairness::cluster(size_t i) const {
    return std::span(ordered_).subspan(first_[i], first_[i + 1] - first_[i]);
}

// The changed links, those together that changed flows tie to each other. Links that nothing uses
// any more are left out: a flow that ended has its level at its other links, too.
void Fairness::order_clusters() {
    single_ = std::exchange(clusters_, 0) == 1;
    std::erase_if(dirty_, [&](int32_t link) {
        links_[link].changed = !links_[link].members.empty();
        return !links_[link].changed;
    });
    first_.assign(1, 0);
    if (single_ && !dirty_.empty()) first_.push_back(static_cast<int64_t>(dirty_.size()));
    if (single_ || dirty_.empty()) {
        ordered_.swap(dirty_);
        return dirty_.clear();
    }
    for (int32_t link : dirty_) {
        int32_t& number = levels_[cluster_of(link)].place;
        if (number == kOutside) {
            number = static_cast<int32_t>(first_.size()) - 1;
            first_.push_back(0);
        }
        ++first_[number + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    ordered_.resize(dirty_.size());
    for (int32_t link : dirty_) ordered_[first_[levels_[cluster_of(link)].place]++] = link;
    for (int32_t link : dirty_) levels_[cluster_of(link)].place = kOutside;
    first_.insert(first_.begin(), 0);
    first_.pop_back();
    dirty_.clear();
}

// Shares anew from a cluster and from those that its region reaches.
void Fairness::fill_joined(size_t i) {
    std::span<const int32_t> own = cluster(i);
    std::vector<int32_t> seeds(own.begin(), own.end());
    int meetings = 0;
    do {
        bool all = ++meetings > kMostMeetings;
        for (size_t j = i + 1; j + 1 < first_.size(); ++j) {
            std::span<const int32_t> other = cluster(j);
            int32_t root = cluster_of(other[0]);
            if (root == cluster_ || !links_[other[0]].changed || !(all || root == met_)) continue;
            links_[root].cluster = cluster_;
            seeds.insert(seeds.end(), other.begin(), other.end());
        }
    } while (!fill(seeds));
    for (int32_t link : seeds) links_[link].changed = false;
}

// Shares anew from these links on; false where the region reaches another cluster (`met_`), and
// nothing has happened.
bool Fairness::fill(std::span<const int32_t> seeds) {
    level_ = begin(seeds);
    for (int32_t link : seeds) enter(link);
    for (;;) {
        fill_class();
        if (met_ >= 0 || !lower_) break;
        class_ = static_cast<uint8_t>(std::bit_width(lower_) - 1);
        lower_ &= ~(uint64_t{1} << class_);
        level_ = 0;
        for (size_t i = 0, n = region_.size(); i < n; ++i) open_class(region_[i]);
    }
    if (met_ < 0) commit();
    leave_region();
    return met_ < 0;
}

// Prepares a filling; returns the level below which nothing differs: nothing that came or went was
// shared at a lower one.
double Fairness::begin(std::span<const int32_t> seeds) {
    if (stamp_ > std::numeric_limits<uint32_t>::max() - 2 * kStates) {
        std::fill(states_.begin(), states_.end(), 0);
        stamp_ = 0;
    }
    stamp_ += kStates;
    met_ = -1;
    cluster_ = cluster_of(seeds[0]);
    class_ = 0;
    lower_ = 0;
    eager_ = false;
    double floor = kNothing;
    for (int32_t number : seeds) {
        const Link& link = links_[number];
        class_ = std::max(class_, link.top);
        floor = std::min(floor, link.floor);
        if (link.fresh)
            floor = std::min(floor, bandwidth(number) / static_cast<double>(link.weight));
    }
    // Levels of different classes do not compare.
    return std::has_single_bit(classes_) ? floor * (1 - kSlack) : 0;
}

void Fairness::fill_class() {
    while (met_ < 0 && !(active_.empty() && pending_.empty())) {
        if (eager_) release_all();
        level_ = lowest_share(0);
        if (!pending_.empty()) level_ = std::min(level_, pending_.front().level);
        size_t links = active_.size();
        release_held();
        level_ = std::min(level_, lowest_share(links));
        find_tight();
        freeze_tight();
        keep_rest();
        refresh();
    }
}

// --- the region ---------------------------------------------------------------------------------

// Takes a link into the region, at the present class and level.
void Fairness::enter(int32_t number) {
    Level& link = levels_[number];
    if (!single_ && links_[number].changed && cluster_of(number) != cluster_)
        met_ = cluster_of(number);
    region_.push_back(number);
    link.used = links_[number].taken;
    link.open = 0;
    for (const Member& member : links_[number].members) {
        if (member.rank.priority > class_) continue;
        if (member.rank.priority < class_) {
            lower_ |= uint64_t{1} << member.rank.priority;
            if (member.level != kFresh) link.used -= fixed(member.level * member.rank.weight);
        } else if (member.level >= level_ || member.level == kFresh) {
            // What is done keeps its level, or this link would have been in the region.
            if (states_[member.flow] == stamp_ + kDone) continue;
            if (member.level != kFresh) link.used -= fixed(member.level * member.rank.weight);
            open(link, member);
        }
    }
    watch(number);
}

// Opens the flows of the present class on a link of the region, where it holds none yet.
void Fairness::open_class(int32_t number) {
    Level& link = levels_[number];
    for (const Member& member : links_[number].members)
        if (member.rank.priority == class_) open(link, member);
    watch(number);
}

void Fairness::open(Level& link, const Member& member) {
    link.open += member.rank.weight;
    uint32_t& state = states_[member.flow];
    if (state >= stamp_) return;
    state = stamp_ + (member.level == kFresh ? kReleased : kPending);
    if (member.level == kFresh) return;
    pending_.push_back({member.level, member.flow});
    eager_ |=
        pending_.size() > std::max(kMostPending, (flows_.size() - free_.size()) / kPartPending);
    if (!eager_) std::push_heap(pending_.begin(), pending_.end());
}

void Fairness::watch(int32_t number) {
    Level& link = levels_[number];
    link.place = kIdle;
    if (link.open == 0) return;
    link.place = static_cast<int32_t>(active_.size());
    active_.push_back(number);
    share_.push_back(share_of(link));
    if (share_.size() > least_.size() * kStretch)
        least_.push_back(share_.back());
    else
        least_.back() = std::min(least_.back(), share_.back());  // what is stale stays so
}

void Fairness::set_share(size_t place, double share) {
    double& least = least_[place / kStretch];
    if (share <= least)
        least = share;
    else if (share_[place] == least)
        least = kStale;
    share_[place] = share;
}

// The lowest share of a stretch of active links.
double Fairness::least_of(size_t stretch) {
    double& least = least_[stretch];
    if (least != kStale) return least;
    auto first = share_.begin() + static_cast<std::ptrdiff_t>(stretch * kStretch);
    auto rest = static_cast<size_t>(share_.end() - first);
    return least = *std::min_element(first, first + std::min(rest, kStretch));
}

// Of the active links from `first` on.
double Fairness::lowest_share(size_t first) {
    double least = kNothing;
    size_t stretch = (first + kStretch - 1) / kStretch;
    for (size_t i = first; i < std::min(stretch * kStretch, share_.size()); ++i)
        least = std::min(least, share_[i]);
    for (; stretch < least_.size(); ++stretch) least = std::min(least, least_of(stretch));
    return least;
}

// Of the flows that were at the present level, releases those whose own link has room now. Who is
// released may take the links of others into the region.
void Fairness::release_held() {
    held_.clear();
    for (bool again = true; again && met_ < 0;) {
        collect_held();
        again = false;
        for (int32_t f : held_) {
            if (states_[f] != stamp_ + kPending) continue;
            int32_t place = levels_[flows_[f].held_by].place;
            if (place == kOutside || (place != kIdle && share_[place] <= level_ * kTie)) continue;
            release(f);
            again = true;
        }
    }
}

void Fairness::collect_held() {
    if (eager_) return;
    while (!pending_.empty() && pending_.front().level <= level_) {
        held_.push_back(pending_.front().flow);
        std::pop_heap(pending_.begin(), pending_.end());
        pending_.pop_back();
    }
}

// Lets a flow's level rise on all of its links.
void Fairness::release(int32_t f) {
    states_[f] = stamp_ + kReleased;
    for (int32_t link : links_of(flows_[f]))
        if (levels_[link].place == kOutside) enter(link);
}

void Fairness::release_all() {
    while (!pending_.empty()) {
        int32_t f = pending_.back().flow;
        pending_.pop_back();
        if (states_[f] == stamp_ + kPending) release(f);
    }
}

// --- one round ----------------------------------------------------------------------------------

void Fairness::find_tight() {
    tight_.clear();
    double most = level_ * kTie;
    for (size_t stretch = 0; stretch < least_.size(); ++stretch) {
        if (least_of(stretch) > most) continue;
        size_t end = std::min((stretch + 1) * kStretch, share_.size());
        for (size_t i = stretch * kStretch; i < end; ++i)
            if (share_[i] <= most) tight_.push_back(active_[i]);
    }
    next_full_.insert(next_full_.end(), tight_.begin(), tight_.end());
}

void Fairness::freeze_tight() {
    for (int32_t link : tight_)
        for (const Member& member : links_[link].members)
            if (states_[member.flow] - stamp_ < kDone && member.rank.priority == class_)
                freeze(member.flow, link);
}

// Gives a flow the present level; if that is a new one, its links see it.
void Fairness::freeze(int32_t f, int32_t by) {
    Flow& flow = flows_[f];
    states_[f] = stamp_ + kDone;
    flow.next_holder = by;
    flow.next = level_;
    frozen_.push_back(f);
    bool changes = flow.level != level_;
    Fixed rate = fixed(level_ * flow.rank.weight);
    for (int32_t number : links_of(flow)) {
        Level& link = levels_[number];
        if (link.place != kOutside) {
            take(link, number, rate, flow.rank.weight);
        } else if (changes) {
            enter(number);
            link.used += rate - fixed(flow.level * flow.rank.weight);
            if (link.place >= 0) set_share(link.place, share_of(link));
        }
    }
}

// Those that other links hold at the present level stay at it.
void Fairness::keep_rest() {
    for (int32_t f : held_) {
        if (states_[f] != stamp_ + kPending) continue;
        states_[f] = stamp_ + kDone;
        const Flow& flow = flows_[f];
        Fixed rate = fixed(flow.level * flow.rank.weight);
        for (int32_t number : links_of(flow))
            if (levels_[number].place != kOutside)
                take(levels_[number], number, rate, flow.rank.weight);
    }
}

void Fairness::take(Level& link, int32_t number, Fixed rate, int64_t weight) {
    if (link.frozen == 0) touched_.push_back(number);
    link.used += rate;
    link.frozen += weight;
}

// The shares of the links whose flows got their rates in this round.
void Fairness::refresh() {
    for (int32_t number : touched_) {
        Level& link = levels_[number];
        link.open -= std::exchange(link.frozen, 0);
        if (link.open) {
            set_share(link.place, share_of(link));
            continue;
        }
        levels_[active_.back()].place = link.place;
        active_[link.place] = active_.back();
        set_share(link.place, share_.back());
        if (share_.back() == least_.back()) least_.back() = kStale;
        active_.pop_back();
        share_.pop_back();
        if (share_.size() <= (least_.size() - 1) * kStretch) least_.pop_back();
        link.place = kIdle;
    }
    touched_.clear();
}

void Fairness::commit() {
    for (int32_t f : frozen_) {
        Flow& flow = flows_[f];
        flow.held_by = flow.next_holder;
        if (flow.level == flow.next) continue;
        flow.level = flow.next;
        changed_.push_back(f);
        auto links = links_of(flow);
        for (size_t hop = 0; hop < links.size(); ++hop)
            links_[links[hop]].members[places_[flow.slots + hop]].level = flow.level;
    }
    for (int32_t link : region_) links_[link].taken = levels_[link].used;
    full_.insert(full_.end(), next_full_.begin(), next_full_.end());
}

void Fairness::leave_region() {
    for (int32_t number : region_) {
        levels_[number].place = kOutside;
        levels_[number].frozen = 0;
    }
    for (auto* list : {&region_, &active_, &tight_, &touched_, &frozen_, &held_, &next_full_})
        list->clear();
    share_.clear();
    least_.clear();
    pending_.clear();
}

}  // namespace chakra::sim
