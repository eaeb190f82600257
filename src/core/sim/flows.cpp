#include "core/sim/flows.hpp"

#include <algorithm>
#include <cmath>

namespace chakra::sim {

namespace {
constexpr double kSlack = 4e-9;  // more than what fairness.cpp takes as equal
}  // namespace

Flows::Flows(const Topology& topology, const Plans& plans)
    : Network(topology.links()),
      topology_(topology),
      plans_(plans),
      bandwidth_(topology.bandwidth.begin(), topology.bandwidth.end()),
      followers_(plans.repeat.size()),
      known_(plans.plans(), -1),
      links_of_plan_(plans.plans()),
      on_link_(topology.links()),
      taken_(topology.links(), 0),
      is_marked_(topology.links(), 0),
      owner_(topology.links(), kNobody),
      is_dirty_(topology.links(), 0),
      link_number_(topology.links(), -1) {
    for (int32_t p = 0; p < plans.plans(); ++p)
        for (int64_t s = plans.plan_steps[p]; s < plans.plan_steps[p + 1]; ++s)
            for (int32_t before : plans.after_of(s))
                followers_[plans.plan_steps[p] + before].push_back(
                    static_cast<int32_t>(s - plans.plan_steps[p]));
}

// --- jobs and steps -----------------------------------------------------------------------------

void Flows::start(int32_t job, int32_t plan, Time now) {
    if (static_cast<size_t>(job) >= jobs_.size()) jobs_.resize(job + 1);
    Job& j = jobs_[job];
    j.plan = plan;
    j.started = now;
    j.disturbed = false;
    if (!skip_job(job, now)) run_steps(job, now);
}

void Flows::run_steps(int32_t job, Time now) {
    Job& j = jobs_[job];
    int64_t first = plans_.plan_steps[j.plan];
    j.left = plans_.steps_of(j.plan);
    j.waiting.resize(j.left);
    for (int32_t s = 0; s < j.left; ++s)
        j.waiting[s] = static_cast<int32_t>(plans_.after_of(first + s).size());
    if (j.left == 0) return end_job(job, now);
    for (int32_t s = 0, n = j.left; s < n; ++s)
        if (plans_.after_of(first + s).empty()) begin_step(job, first + s, now);
}

void Flows::begin_step(int32_t job, int64_t step, Time now) {
    int32_t a = new_active();
    active_[a].job = job;
    active_[a].step = step;
    active_[a].rounds = plans_.repeat[step];
    active_[a].skips = false;
    begin_round(a, now);
}

void Flows::begin_round(int32_t a, Time now) {
    Active& active = active_[a];
    int64_t first = plans_.step_transfers[active.step];
    int64_t last = plans_.step_transfers[active.step + 1];
    active.started = now;
    active.disturbed = false;
    active.pending = last - first;
    // One event per distinct delay. An empty step takes one too, so that nothing recurses.
    if (first == last) events_.push({now, kBegin, a, active.version, first});
    for (int64_t t = first; t < last; ++t)
        if (t == first || plans_.delay[t] != plans_.delay[t - 1])
            events_.push({now + plans_.delay[t], kBegin, a, active.version, t});
}

void Flows::begin_transfers(const Event& event) {
    int32_t a = event.id;
    int64_t last = plans_.step_transfers[active_[a].step + 1];
    int64_t t = event.first;
    for (; t < last && plans_.delay[t] == plans_.delay[event.first]; ++t) {
        // What stays on its device uses no link and takes no more than its delay.
        if (plans_.bytes[t] > 0 && !topology_.route(plans_.route[t]).empty())
            begin_flow(a, t, event.time);
        else
            --active_[a].pending;
    }
    if (active_[a].pending == 0) end_round(a, event.time);
}

void Flows::begin_flow(int32_t a, int64_t transfer, Time now) {
    auto route = topology_.route(plans_.route[transfer]);
    for (int32_t link : route) claim(link, now);
    int32_t f = new_flow();
    Flow& flow = flows_[f];
    flow.route = plans_.route[transfer];
    flow.step = a;
    flow.remaining = plans_.bytes[transfer];
    flow.rate = 0;
    flow.since = now;
    flow.place.clear();
    for (int32_t link : route) {
        auto hop = static_cast<int32_t>(flow.place.size());
        flow.place.push_back(static_cast<int32_t>(on_link_[link].size()));
        on_link_[link].push_back({kFresh, f, hop, a});
        is_marked_[link] = 0;
        touch(link);
    }
    fresh_.push_back(f);
}

void Flows::end_flow(const Event& event) {
    Flow& flow = flows_[event.id];
    int32_t a = flow.step;
    ++flow.version;
    floor_ = std::min(floor_, flow.rate);
    auto route = topology_.route(flow.route);
    Sharing::Fixed freed = Sharing::fixed(flow.rate);
    for (size_t hop = 0; hop < route.size(); ++hop) {
        taken_[route[hop]] -= freed;
        auto& entries = on_link_[route[hop]];
        int32_t place = flow.place[hop];
        entries[place] = entries.back();
        flows_[entries[place].flow].place[entries[place].hop] = place;
        entries.pop_back();
        touch(route[hop]);
    }
    free_flows_.push_back(event.id);
    if (--active_[a].pending == 0) end_round(a, event.time);
}

void Flows::touch(int32_t link) {
    if (!is_dirty_[link]) dirty_.push_back(link);
    is_dirty_[link] = 1;
}

void Flows::end_round(int32_t a, Time now) {
    Active& active = active_[a];
    active.round_time = now - active.started;
    if (--active.rounds == 0) return end_step(a, now);
    if (active.rounds > 1 && !active.disturbed && skip_rounds(a, now)) return;
    begin_round(a, now);
}

void Flows::end_step(int32_t a, Time now) {
    int32_t job = active_[a].job;
    int64_t step = active_[a].step;
    ++active_[a].version;
    free_active_.push_back(a);
    int64_t first = plans_.plan_steps[jobs_[job].plan];
    for (int32_t next : followers_[step])
        if (--jobs_[job].waiting[next] == 0) begin_step(job, first + next, now);
    if (--jobs_[job].left == 0) end_job(job, now);
}

void Flows::end_job(int32_t job, Time now) {
    Job& j = jobs_[job];
    if (!j.disturbed) known_[j.plan] = now - j.started;
    std::vector<int32_t>().swap(j.waiting);
    finished_.push_back(job);
}

// --- time ---------------------------------------------------------------------------------------

Time Flows::next_time() {
    while (!events_.empty()) {
        const Event& e = events_.top();
        uint32_t version = e.kind == kJobEnd    ? jobs_[e.id].version
                           : e.kind == kFlowEnd ? flows_[e.id].version
                                                : active_[e.id].version;
        if (version == e.version) return e.time;
        events_.pop();
    }
    return kNever;
}

bool Flows::handle_until(Time now) {
    bool any = false;
    while (next_time() <= now) {
        Event event = events_.top();
        events_.pop();
        handle(event);
        any = true;
    }
    return any;
}

void Flows::handle(const Event& event) {
    switch (event.kind) {
        case kBegin: return begin_transfers(event);
        case kFlowEnd: return end_flow(event);
        case kRoundsEnd: return end_skipped_rounds(event.id, event.time);
        case kJobEnd: break;
    }
    Job& job = jobs_[event.id];
    if (job.skips)
        for (int32_t link : plan_links(job.plan)) owner_[link] = kNobody;
    job.skips = false;
    ++job.version;
    finished_.push_back(event.id);
}

void Flows::step(Time now, std::vector<int32_t>& finished) {
    handle_until(now);
    finished.insert(finished.end(), finished_.begin(), finished_.end());
    finished_.clear();
}

void Flows::scale_link(int32_t link, double factor, Time now) {
    claim(link, now);
    bandwidth_[link] = topology_.bandwidth[link] * factor;
    std::fill(known_.begin(), known_.end(), -1);
    // What skips over other links keeps its time; what runs now may not be remembered.
    for (Job& job : jobs_) job.disturbed = true;
    for (Active& active : active_) active.disturbed = true;
    floor_ = 0;
    touch(link);
}

// --- sharing ------------------------------------------------------------------------------------

void Flows::settle(Time now) {
    std::vector<int32_t> dirty = std::move(dirty_);
    dirty_.clear();
    double floor = lowest_changed() * (1 - kSlack);
    for (int32_t link : dirty)
        if (is_dirty_[link]) share_from(link, floor, now);
}

// No rate below this changes: nothing that came or went was shared at a lower one.
double Flows::lowest_changed() {
    double lowest = floor_;
    for (int32_t f : fresh_)
        for (int32_t link : topology_.route(flows_[f].route))
            lowest =
                std::min(lowest, bandwidth_[link] / static_cast<double>(on_link_[link].size()));
    fresh_.clear();
    floor_ = kNoFloor;
    return lowest;
}

// Shares all links that flows at or above the floor tie to this one.
void Flows::share_from(int32_t link, double floor, Time now) {
    ++seen_;
    found_links_.clear();
    found_flows_.clear();
    flow_seen_.resize(flows_.size(), 0);
    sharing_.clear();
    link_number_[link] = 0;
    found_links_.push_back(link);
    for (size_t i = 0; i < found_links_.size(); ++i) gather(found_links_[i], floor);
    for (int32_t f : found_flows_) {
        for (int32_t l : topology_.route(flows_[f].route))
            sharing_.links.push_back(link_number_[l]);
        sharing_.offsets.push_back(static_cast<int64_t>(sharing_.links.size()));
    }
    for (int32_t l : found_links_) {
        link_number_[l] = -1;
        is_dirty_[l] = 0;
    }
    sharing_.solve();
    for (int32_t l : sharing_.full)
        meter_.see_full(found_links_[l], bandwidth_[found_links_[l]], now);
    for (size_t i = 0; i < found_flows_.size(); ++i)
        set_rate(found_flows_[i], sharing_.rate[i], now);
}

// Adds a link's flows at or above the floor, and their links; the others keep what they use.
void Flows::gather(int32_t link, double floor) {
    Sharing::Fixed used = taken_[link];
    for (const OnLink& entry : on_link_[link]) {
        if (entry.rate < floor && entry.rate != kFresh) continue;
        if (entry.rate != kFresh) used -= Sharing::fixed(entry.rate);
        if (flow_seen_[entry.flow] == seen_) continue;
        flow_seen_[entry.flow] = seen_;
        found_flows_.push_back(entry.flow);
        for (int32_t l : topology_.route(flows_[entry.flow].route)) {
            if (link_number_[l] >= 0) continue;
            link_number_[l] = static_cast<int32_t>(found_links_.size());
            found_links_.push_back(l);
        }
    }
    sharing_.capacity.push_back(bandwidth_[link]);
    sharing_.used.push_back(used);
    if (!is_marked_[link]) mark_disturbed(link);
}

// Steps that share a link with other steps, and jobs with other jobs, cannot be skipped.
void Flows::mark_disturbed(int32_t link) {
    const auto& entries = on_link_[link];
    is_marked_[link] = 1;
    bool steps = false, jobs = false;
    for (const OnLink& entry : entries) {
        steps |= entry.step != entries[0].step;
        jobs |= active_[entry.step].job != active_[entries[0].step].job;
    }
    if (!steps) return;
    for (const OnLink& entry : entries) {
        active_[entry.step].disturbed = true;
        if (jobs) jobs_[active_[entry.step].job].disturbed = true;
    }
}

void Flows::set_rate(int32_t f, double rate, Time now) {
    Flow& flow = flows_[f];
    if (flow.rate == rate) return;
    flow.remaining =
        std::max(0.0, flow.remaining - flow.rate * static_cast<double>(now - flow.since));
    flow.since = now;
    Sharing::Fixed more = Sharing::fixed(rate) - Sharing::fixed(flow.rate);
    flow.rate = rate;
    ++flow.version;
    auto route = topology_.route(flow.route);
    for (size_t hop = 0; hop < route.size(); ++hop) {
        on_link_[route[hop]][flow.place[hop]].rate = rate;
        taken_[route[hop]] += more;
    }
    if (rate > 0) {
        Time end = now + amount(flow.remaining / rate);
        events_.push({end, kFlowEnd, f, flow.version, 0});
    }
}

int32_t Flows::new_flow() {
    if (free_flows_.empty()) {
        flows_.emplace_back();
        return static_cast<int32_t>(flows_.size()) - 1;
    }
    int32_t f = free_flows_.back();
    free_flows_.pop_back();
    return f;
}

int32_t Flows::new_active() {
    if (free_active_.empty()) {
        active_.emplace_back();
        return static_cast<int32_t>(active_.size()) - 1;
    }
    int32_t a = free_active_.back();
    free_active_.pop_back();
    return a;
}

}  // namespace chakra::sim
