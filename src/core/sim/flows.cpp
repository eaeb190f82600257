#include "core/sim/flows.hpp"

#include <algorithm>
#include <cmath>

namespace chakra::sim {

Flows::Flows(const Topology& topology, const Plans& plans)
    : Network(topology.links()),
      topology_(topology),
      plans_(plans),
      fairness_(topology),
      is_marked_(topology.links(), 0),
      owner_(topology.links(), kNobody) {
    grow();
}

void Flows::grow() {
    auto p = static_cast<int32_t>(known_.size());
    followers_.resize(plans_.repeat.size());
    known_.resize(plans_.plans(), -1);
    known_epoch_.resize(plans_.plans(), 0);
    links_of_plan_.resize(plans_.plans());
    for (; p < plans_.plans(); ++p)
        for (int64_t s = plans_.plan_steps[p]; s < plans_.plan_steps[p + 1]; ++s)
            for (int32_t before : plans_.after_of(s))
                followers_[plans_.plan_steps[p] + before].push_back(
                    static_cast<int32_t>(s - plans_.plan_steps[p]));
}

// --- jobs and steps -----------------------------------------------------------------------------

void Flows::start(int32_t job, int32_t plan, Rank rank, Time now) {
    if (static_cast<size_t>(job) >= jobs_.size()) jobs_.resize(job + 1);
    Job& j = jobs_[job];
    j.plan = plan;
    j.rank = rank;
    j.started = now;
    j.disturbed = false;
    j.epoch = epoch_;
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
    active.epoch = epoch_;
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
    int32_t f = fairness_.add(plans_.route[transfer], a, jobs_[active_[a].job].rank);
    if (static_cast<size_t>(f) >= flows_.size()) flows_.resize(f + 1);
    Flow& flow = flows_[f];
    flow.step = a;
    flow.transfer = transfer;
    flow.remaining = plans_.bytes[transfer];
    flow.rate = 0;
    flow.since = now;
    for (int32_t link : route) is_marked_[link] = 0;
}

void Flows::end_flow(int32_t f, Time now) {
    int32_t a = flows_[f].step;
    if (history_) note(flows_[f].transfer, flows_[f].remaining, flows_[f].since, now);
    flows_[f].transfer = -1;
    ends_.erase(f);
    fairness_.remove(f);
    if (--active_[a].pending == 0) end_round(a, now);
}

void Flows::end_round(int32_t a, Time now) {
    Active& active = active_[a];
    active.round_time = now - active.started;
    if (--active.rounds == 0) return end_step(a, now);
    bool alone = !active.disturbed && active.epoch == epoch_;
    if (active.rounds > 1 && alone && skip_rounds(a, now)) return;
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
    if (!j.disturbed && j.epoch == epoch_ && j.rank.weight == 1) {
        known_[j.plan] = now - j.started;
        known_epoch_[j.plan] = epoch_;
    }
    std::vector<int32_t>().swap(j.waiting);
    finished_.push_back(job);
}

// --- time ---------------------------------------------------------------------------------------

Time Flows::next_time() {
    while (!events_.empty()) {
        const Event& e = events_.top();
        uint32_t version = e.kind == kJobEnd ? jobs_[e.id].version : active_[e.id].version;
        if (version == e.version) return std::min(e.time, ends_.first());
        events_.pop();
    }
    return ends_.first();
}

bool Flows::handle_until(Time now) {
    bool any = false;
    for (Time time; (time = next_time()) <= now; any = true) {
        if (ends_.first() == time) {
            end_flow(ends_.first_flow(), time);
            continue;
        }
        Event event = events_.top();
        events_.pop();
        handle(event);
    }
    return any;
}

void Flows::handle(const Event& event) {
    switch (event.kind) {
        case kBegin: return begin_transfers(event);
        case kRoundsEnd: return end_skipped_rounds(event.id, event.time);
        case kJobEnd: break;
    }
    Job& job = jobs_[event.id];
    for (int64_t s = plans_.plan_steps[job.plan]; history_ && s < plans_.plan_steps[job.plan + 1];
         ++s)
        note_step(s, plans_.repeat[s], job.started, event.time);
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
    fairness_.set_bandwidth(link, topology_.bandwidth[link] * factor);
    ++epoch_;  // what skips over other links keeps its time; what runs now may not be remembered
}

// --- sharing ------------------------------------------------------------------------------------

void Flows::settle(Time now) {
    for (int32_t link : fairness_.unsettled())
        if (!is_marked_[link]) mark_disturbed(link);
    fairness_.settle();
    for (int32_t link : fairness_.full()) meter_.see_full(link, fairness_.bandwidth(link), now);
    for (int32_t f : fairness_.changed()) set_rate(f, fairness_.rate(f), now);
}

// Steps that share a link with other steps, and jobs with other jobs, cannot be skipped.
void Flows::mark_disturbed(int32_t link) {
    is_marked_[link] = 1;
    auto members = fairness_.on(link);
    bool steps = false, jobs = false;
    for (const Fairness::Member& member : members) {
        steps |= member.owner != members[0].owner;
        jobs |= active_[member.owner].job != active_[members[0].owner].job;
    }
    if (!steps) return;
    for (const Fairness::Member& member : members) {
        active_[member.owner].disturbed = true;
        if (jobs) jobs_[active_[member.owner].job].disturbed = true;
    }
}

void Flows::set_rate(int32_t f, double rate, Time now) {
    Flow& flow = flows_[f];
    if (flow.rate == rate) return;
    double left = std::max(0.0, flow.remaining - flow.rate * static_cast<double>(now - flow.since));
    if (history_) note(flow.transfer, flow.remaining - left, flow.since, now);
    flow.remaining = left;
    flow.since = now;
    flow.rate = rate;
    if (rate > 0)
        ends_.set(f, now + time_at_rate(flow.remaining, rate));
    else
        ends_.erase(f);
}

// Bytes as links feel them, of one transfer between two times.
void Flows::note(int64_t transfer, double bytes, Time from, Time until) {
    if (bytes <= 0) return;
    double counted = bytes * payload_[transfer] / plans_.bytes[transfer];
    for (int32_t link : topology_.route(plans_.route[transfer]))
        history_->add(link, from, until, counted);
}

void Flows::note_step(int64_t step, int64_t rounds, Time from, Time until) {
    for (int64_t t = plans_.step_transfers[step]; t < plans_.step_transfers[step + 1]; ++t)
        note(t, plans_.bytes[t] * static_cast<double>(rounds), from, until);
}

std::vector<Unfinished> Flows::unfinished() const {
    std::vector<Unfinished> out;
    for (const Flow& flow : flows_)
        if (flow.transfer >= 0)
            out.push_back(
                {active_[flow.step].job, flow.transfer, flow.remaining, active_[flow.step].rounds});
    return out;
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
