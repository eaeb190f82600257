// Instances: collectives, messages and storage operations, from the arrival of their members to
// their end.
#include "core/sim/simulation.hpp"

namespace chakra::sim {

void Simulation::arrive(int32_t v) {
    if (w_.after_of(v) < 0) own_end(v, -1 - w_.after_of(v));
    int32_t instance = w_.instance[v];
    if (jobs_left_[instance] > 0) begin_moving(v);
    int32_t& last = last_arrival_[instance];
    // Of those that arrive last the lowest row counts.
    if (last < 0 || out_.start[last] < now_ || v < last) last = v;
    if (++out_.arrived[instance] < w_.needed[instance]) return;
    out_.began[instance] = now_;
    schedule(now_ + w_.overhead[instance], kGo, instance);
}

void Simulation::go(int32_t instance) {
    int64_t first = w_.instance_jobs[instance], last = w_.instance_jobs[instance + 1];
    jobs_left_[instance] = static_cast<int32_t>(last - first);
    if (first == last) return end_instance(instance);
    for (int32_t v : members_[instance]) begin_moving(v);
    for (int64_t j = first; j < last; ++j) {
        auto job = static_cast<int32_t>(j);
        if (w_.gate_of(job) < 0)
            start_job(job);
        else
            gates_.add(job, now_);
    }
}

void Simulation::start_job(int32_t job) {
    out_.job_started[job] = now_;
    network_.start(job, w_.job_plan[job], w_.rank_of(job), now_);
}

void Simulation::start_free_job(int32_t job) {
    job_instance_[job] = -1;
    start_job(job);
}

// Gates let in those that are first in their queues; true if there were any.
bool Simulation::pass_gates() {
    std::vector<int32_t> jobs = gates_.take();
    for (int32_t job : jobs) start_job(job);
    return !jobs.empty();
}

void Simulation::end_job(int32_t job) {
    ++out_.job_runs[w_.job_plan[job]];
    int32_t instance = job_instance_[job];
    if (instance < 0) return reactor_->job_ended(job);
    out_.job_ended[job] = now_;
    if (w_.gate_of(job) >= 0) gates_.free(w_.gate_of(job));
    if (--jobs_left_[instance] == 0) end_instance(instance);
}

void Simulation::end_instance(int32_t instance) {
    out_.ended[instance] = now_;
    for (int32_t v : members_[instance]) {
        end_moving(v);
        if (out_.start[v] >= 0 && w_.after_of(v) >= 0) own_end(v, w_.after_of(v));
    }
}

}  // namespace chakra::sim
