#include "core/sim/simulation.hpp"

#include <algorithm>
#include <utility>

namespace chakra::sim {

Simulation::Simulation(const Workload& w, const Plans& plans, Network& network, const Pick& pick)
    : w_(w),
      network_(network),
      pick_(pick),
      kernel_(w.constraints()),
      pools_(0),
      room_(w),
      gates_(w),
      devices_(w.comm_slowdown.size()) {
    fit_to_workload(plans.plans());
}

// Everything that has one entry per row, lane, instance, job or plan. Each kind only grows.
void Simulation::fit_to_workload(int32_t plans) {
    size_t rows = w_.duration.size(), instances = w_.needed.size(), jobs = w_.job_plan.size();
    auto row = static_cast<int32_t>(out_.start.size());
    auto instance = static_cast<int64_t>(out_.arrived.size());
    pools_.resize(w_.lane_kind.size());
    out_.start.resize(rows, -1);
    out_.end.resize(rows, -1);
    out_.binding.resize(rows, -1);
    out_.reason.resize(rows, kNone);
    moving_.resize(rows, false);
    out_.arrived.resize(instances, 0);
    out_.began.resize(instances, -1);
    out_.ended.resize(instances, -1);
    out_.job_started.resize(jobs, -1);
    out_.job_ended.resize(jobs, -1);
    out_.job_runs.resize(plans, 0);
    job_instance_.resize(jobs, -1);
    jobs_left_.resize(instances);
    last_arrival_.resize(instances, -1);
    members_.resize(instances);
    for (; instance < std::ssize(w_.needed); ++instance)
        for (int64_t j = w_.instance_jobs[instance]; j < w_.instance_jobs[instance + 1]; ++j)
            job_instance_[j] = static_cast<int32_t>(instance);
    for (; row < w_.rows(); ++row)
        if (w_.instance[row] >= 0) members_[w_.instance[row]].push_back(row);
}

Outcome Simulation::run() && {
    release_all();
    run_on();
    explain();
    return std::move(out_);
}

void Simulation::run_on() {
    for (Time t = next_time(); goes_on(t); t = next_time()) {
        now_ = t;
        handle_all();
    }
}

bool Simulation::goes_on(Time next) {
    if (next > kHorizon && next != kNever && network_.next_time() <= next)
        out_.beyond = transferring();
    if (reactor_ && !reactor_->goes_on(next)) return false;
    return next != kNever && out_.beyond < 0;
}

// A member of a collective or message that is on the network.
int32_t Simulation::transferring() const {
    for (size_t i = 0; i < members_.size(); ++i)
        if (out_.began[i] >= 0 && out_.ended[i] < 0 && !members_[i].empty())
            return members_[i].front();
    return 0;
}

void Simulation::release_all() {
    for (int32_t v = 0; v < w_.rows(); ++v)
        if (kernel_[start_of(v)].pending == 0) events_.push({w_.release_of(v), kStart, v, 0});
}

// --- growth -------------------------------------------------------------------------------------

void Simulation::grow(const Constraints& more, int32_t plans) {
    if (more.rows > 0) kernel_.append(more);
    fit_to_workload(plans);
}

void Simulation::release(int32_t v) {
    if (kernel_[start_of(v)].pending == 0) schedule(now_, kStart, v);
}

void Simulation::forget(int32_t v) {
    kernel_.reset(v);
    out_.start[v] = out_.end[v] = out_.binding[v] = -1;
}

void Simulation::open(int32_t instance) {
    members_[instance].clear();
    reopen(instance);
    job_instance_[w_.instance_jobs[instance]] = instance;  // it may have been a free job
}

void Simulation::reopen(int32_t instance) {
    out_.arrived[instance] = 0;
    out_.began[instance] = out_.ended[instance] = -1;
    last_arrival_[instance] = -1;
}

std::vector<Kernel::Event> Simulation::events_of(int32_t first, int32_t rows) const {
    std::vector<Kernel::Event> events;
    for (EventId e = start_of(first); e < start_of(first + rows); ++e) events.push_back(kernel_[e]);
    return events;
}

void Simulation::restore(int32_t first, const std::vector<Kernel::Event>& events) {
    for (size_t e = 0; e < events.size(); ++e)
        kernel_[start_of(first) + static_cast<EventId>(e)] = events[e];
    for (size_t v = first; v < first + events.size() / 2; ++v)
        out_.start[v] = out_.end[v] = out_.binding[v] = -1;
}

// --- time ---------------------------------------------------------------------------------------

Time Simulation::next_time() const {
    Time next = network_.next_time();
    if (!events_.empty()) next = std::min(next, events_.top().time);
    if (reactor_) next = std::min(next, reactor_->next_time());
    // What has stopped may go on after a fault is over; when all rows have ended, nothing can.
    bool waits = reactor_ ? reactor_->waits() : ended_ < w_.rows();
    if (fault_ < w_.fault_time.size() && (next != kNever || waits))
        next = std::min(next, w_.fault_time[fault_]);
    return next;
}

void Simulation::handle_all() {
    while (fault_ < w_.fault_time.size() && w_.fault_time[fault_] <= now_) next_fault();
    do {
        while (handle_due() || (reactor_ && reactor_->react(now_))) {
        }
    } while (dispatch() || admit() || pass_gates());
    settle_devices();
    network_.settle(now_);
}

// Everything due now that is known now; true if there was any.
bool Simulation::handle_due() {
    while (!events_.empty() && events_.top().time <= now_) {
        due_.push_back(events_.top());
        events_.pop();
    }
    size_t count = 0;
    for (; count < due_.size(); ++count) {
        Event event = due_[count];
        handle(event);
    }
    due_.clear();
    network_.step(now_, finished_jobs_);
    std::vector<int32_t> finished = std::exchange(finished_jobs_, {});
    for (int32_t job : finished) end_job(job);
    out_.events += static_cast<int64_t>(count + finished.size());
    return count > 0 || !finished.empty();
}

void Simulation::handle(const Event& event) {
    switch (event.kind) {
        case kStart: return ready(event.id);
        case kEnd: return finish(event.id);
        case kGo: return go(event.id);
        case kRound:
            if (devices_[event.id].version == event.version) end_round(event.id);
            return;
        case kWorkDone: return work_done(event.id, event.version);
    }
}

// What is due now is handled now, in order; the heap holds only what comes later.
void Simulation::schedule(Time time, Kind kind, int32_t id) {
    if (time <= now_)
        due_.push_back({now_, kind, id, 0});
    else
        events_.push({time, kind, id, 0});
}

// --- rows ---------------------------------------------------------------------------------------

void Simulation::fire(EventId event) {
    kernel_.fire(event, now_, [&](EventId next) { due(next); });
}

void Simulation::own_end(int32_t v, Time delay) {
    kernel_.constrain(end_of(v), now_, delay, kOwnKey, [&](EventId next) { due(next); });
}

// Notes why the row, which was ready at `since`, starts only now.
void Simulation::held_by_resource(int32_t v, int32_t holder, Time since) {
    if (now_ <= since) return;
    kernel_[start_of(v)].key = kLaneKey;
    out_.binding[v] = holder;
}

bool Simulation::in_pool(int32_t v) const {
    return w_.lane[v] >= 0 && w_.lane_kind[w_.lane[v]] == kPool;
}

void Simulation::ready(int32_t v) {
    if (room_.needed(v)) return ask(v);
    if (!in_pool(v)) return begin(v);
    pools_.add(w_.lane[v], w_.priority[v], now_, v);
}

void Simulation::begin(int32_t v) {
    if (now_ > kHorizon) out_.beyond = v;
    if (out_.beyond >= 0) return;
    out_.start[v] = now_;
    fire(start_of(v));
    if (w_.kind[v] == kComm || w_.kind[v] == kStorage) return arrive(v);
    if (w_.kind[v] == kCompute && w_.duration[v] > 0) return begin_work(v);
    own_end(v, w_.duration[v]);
}

void Simulation::finish(int32_t v) {
    if (now_ > kHorizon) out_.beyond = v;
    if (out_.beyond >= 0) return;
    out_.end[v] = now_;
    ++ended_;
    fire(end_of(v));
    if (in_pool(v)) pools_.free(w_.lane[v]);
    end_moving(v);
    if (room_.needed(v)) give_back(v);
    if (reactor_) reactor_->row_ended(v);
}

// Pool lanes start what goes first; true if any did.
bool Simulation::dispatch() {
    bool any = false;
    for (int32_t lane : pools_.take_candidates(static_cast<bool>(pick_))) {
        auto [row, before] = pools_.start(lane, now_, pick_);
        if (row < 0) continue;
        any = true;
        held_by_resource(row, before, kernel_[start_of(row)].time);
        begin(row);
    }
    return any;
}

void Simulation::next_fault() {
    int32_t target = w_.fault_target[fault_];
    if (w_.fault_is_link[fault_]) {
        network_.scale_link(target, w_.fault_factor[fault_], now_);
    } else {
        devices_[target].factor = w_.fault_factor[fault_];
        touch(target);
    }
    ++fault_;
}

// --- why ----------------------------------------------------------------------------------------

void Simulation::explain() {
    explain_rows();
    explain_peers();
}

void Simulation::explain_rows() {
    for (int32_t v = 0; v < w_.rows(); ++v) {
        Key key = kernel_[start_of(v)].key;
        out_.reason[v] = reason_of(key, start_of(v));
        if (out_.reason[v] == kDependency) out_.binding[v] = w_.src[edge_of(key)];
    }
    for (int32_t v = 0; v < w_.rows(); ++v) {
        int32_t next = kernel_.lanes().follower[v];
        // Who was in the way on a device has been noted already.
        if (next >= 0 && out_.reason[next] == kResource && out_.binding[next] < 0)
            out_.binding[next] = v;
    }
}

// A member of a collective that waited for another names the one that came last.
void Simulation::explain_peers() {
    for (int32_t v = 0; v < w_.rows(); ++v) {
        if (w_.kind[v] != kComm || out_.start[v] < 0) continue;
        int32_t last = last_arrival_[w_.instance[v]];
        if (out_.start[last] <= out_.start[v]) continue;
        out_.reason[v] = kPeer;
        out_.binding[v] = last;
    }
}

Outcome simulate(const Workload& workload, const Plans& plans, Network& network, const Pick& pick) {
    return Simulation(workload, plans, network, pick).run();
}

}  // namespace chakra::sim
