#include "core/sim/live/growing.hpp"

#include <algorithm>
#include <utility>

#include "core/sim/analytical.hpp"
#include "core/sim/flows.hpp"

namespace chakra::sim::live {

namespace {

Plans no_plans() {
    Plans plans;
    plans.plan_steps = plans.after_offsets = plans.step_transfers = {0};
    return plans;
}

std::unique_ptr<Network> network_of(bool flow, const Topology& topology, const Plans& plans) {
    if (flow) return std::make_unique<Flows>(topology, plans);
    return std::make_unique<Analytical>(topology, plans);
}

// Appends values, each with something added; offsets leave out their leading 0.
template <class T, class U>
void append(std::vector<T>& to, const std::vector<T>& from, U added, size_t skip = 0) {
    for (size_t i = skip; i < from.size(); ++i) to.push_back(from[i] + static_cast<T>(added));
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Growing::Growing(Workload site, Topology links, bool flow, Reactor& reactor)
    : w_(std::move(site)),
      plans_(no_plans()),
      topology_(std::move(links)),
      network_(network_of(flow, topology_, plans_)),
      simulation_(w_, plans_, *network_, no_policy_) {
    simulation_.react_with(reactor);
}

// --- the network --------------------------------------------------------------------------------

int32_t Growing::add_route(std::span<const int64_t> links) {
    for (int64_t link : links) topology_.route_links.push_back(static_cast<int32_t>(link));
    topology_.route_offsets.push_back(static_cast<int64_t>(topology_.route_links.size()));
    return topology_.routes() - 1;
}

int32_t Growing::add_plans(const Plans& plans, const Topology& routes,
                           std::span<const double> payload) {
    int32_t first = plans_.plans(), route = topology_.routes();
    append(topology_.route_offsets, routes.route_offsets, topology_.route_links.size(), 1);
    append(topology_.route_links, routes.route_links);
    append(plans_.plan_steps, plans.plan_steps, plans_.repeat.size(), 1);
    append(plans_.repeat, plans.repeat);
    append(plans_.after_offsets, plans.after_offsets, plans_.after.size(), 1);
    append(plans_.after, plans.after);
    append(plans_.step_transfers, plans.step_transfers, plans_.route.size(), 1);
    append(plans_.route, plans.route, route);
    append(plans_.bytes, plans.bytes);
    append(plans_.delay, plans.delay);
    payload_.insert(payload_.end(), payload.begin(), payload.end());
    network_->grow();
    simulation_.grow({}, plans_.plans());
    return first;
}

int32_t Growing::add_message(int32_t route, double bytes, double payload, Time delay) {
    plans_.repeat.push_back(1);
    plans_.plan_steps.push_back(static_cast<int64_t>(plans_.repeat.size()));
    plans_.after_offsets.push_back(plans_.after_offsets.back());
    plans_.route.push_back(route);
    plans_.step_transfers.push_back(static_cast<int64_t>(plans_.route.size()));
    plans_.bytes.push_back(bytes);
    plans_.delay.push_back(delay);
    payload_.push_back(payload);
    network_->grow();
    simulation_.grow({}, plans_.plans());
    return plans_.plans() - 1;
}

// --- single rows and transfers ------------------------------------------------------------------

int32_t Growing::take_row() {
    if (!free_rows_.empty()) {
        int32_t row = free_rows_.top();
        free_rows_.pop();
        return row;
    }
    w_.duration.push_back(0);
    w_.kind.push_back(kPlain);
    w_.lane.push_back(-1);
    w_.priority.push_back(0);
    w_.share.push_back(0);
    w_.waves.push_back(1);
    w_.instance.push_back(-1);
    w_.device.push_back(-1);
    copy_of_row_.push_back(-1);
    simulation_.grow({.rows = 1}, plans_.plans());
    return w_.rows() - 1;
}

int32_t Growing::compute(int32_t device, bool host, Time duration, int32_t priority) {
    int32_t row = take_row();
    w_.duration[row] = duration;
    w_.kind[row] = host ? kPlain : kCompute;
    w_.lane[row] = 2 * device + host;
    w_.priority[row] = priority;
    w_.share[row] = kWhole;
    w_.instance[row] = -1;
    w_.device[row] = device;
    simulation_.release(row);
    return row;
}

// An instance with a single job.
int32_t Growing::take_instance() {
    if (!free_instances_.empty()) {
        int32_t instance = free_instances_.top();
        free_instances_.pop();
        return instance;
    }
    w_.needed.push_back(0);
    w_.overhead.push_back(0);
    w_.job_plan.push_back(-1);
    w_.job_gate.push_back(-1);
    w_.job_order.push_back(0);
    w_.job_priority.push_back(0);
    w_.job_weight.push_back(1);
    w_.instance_jobs.push_back(static_cast<int64_t>(w_.job_plan.size()));
    simulation_.grow({}, plans_.plans());
    return static_cast<int32_t>(w_.needed.size()) - 1;
}

void Growing::set_job(int64_t job, Transfer transfer, int32_t gate, int64_t order) {
    w_.job_plan[job] = transfer.plan;
    w_.job_gate[job] = gate;
    w_.job_order[job] = order;
    w_.job_priority[job] = transfer.rank.priority;
    w_.job_weight[job] = transfer.rank.weight;
}

// The job of an instance that nobody joins.
int32_t Growing::send(Transfer transfer, int32_t device) {
    int32_t instance = take_instance();
    auto job = static_cast<int32_t>(w_.instance_jobs[instance]);
    set_job(job, transfer, -1, 0);
    simulation_.count_communication(device, 1);
    simulation_.start_free_job(job);
    return job;
}

int32_t Growing::open(Transfer transfer, int32_t needed, Time overhead, int32_t gate,
                      int64_t order) {
    int32_t instance = take_instance();
    w_.needed[instance] = needed;
    w_.overhead[instance] = overhead;
    set_job(w_.instance_jobs[instance], transfer, gate, order);
    simulation_.open(instance);
    return instance;
}

int32_t Growing::join(int32_t instance, int32_t device, RowKind kind) {
    int32_t row = take_row();
    w_.duration[row] = 0;
    w_.kind[row] = kind;
    w_.lane[row] = -1;
    w_.share[row] = 0;
    w_.instance[row] = instance;
    w_.device[row] = device;
    simulation_.add_member(instance, row);
    simulation_.release(row);
    return row;
}

void Growing::recycle_row(int32_t row) {
    simulation_.forget(row);
    free_rows_.push(row);
}

void Growing::recycle_job(int32_t job, int32_t device) {
    simulation_.count_communication(device, -1);
    auto place = std::upper_bound(w_.instance_jobs.begin(), w_.instance_jobs.end(), job);
    free_instances_.push(static_cast<int32_t>(place - w_.instance_jobs.begin()) - 1);
}

void Growing::recycle_instance(int32_t instance) {
    free_instances_.push(instance);
}

// --- scores -------------------------------------------------------------------------------------

int32_t Growing::add_score(Score score) {
    scores_.push_back(std::move(score));
    return static_cast<int32_t>(scores_.size()) - 1;
}

int32_t Growing::copy(int32_t s) {
    Score& score = scores_[s];
    if (score.free_copies.empty()) return new_copy(s);
    int32_t number = score.free_copies.back();
    score.free_copies.pop_back();
    Copy& copy = copies_[number];
    copy.rows_left = score.rows.rows();
    simulation_.restore(copy.first_row, copy.fresh);
    for (size_t i = 0; i < score.rows.needed.size(); ++i)
        simulation_.reopen(static_cast<int32_t>(copy.first_instance + i));
    return number;
}

int32_t Growing::new_copy(int32_t s) {
    const Score& score = scores_[s];
    int32_t first = w_.rows();
    auto instance = static_cast<int64_t>(w_.needed.size());
    append_rows(score);
    append_instances(score);
    simulation_.grow(score.rows.constraints(), plans_.plans());
    auto number = static_cast<int32_t>(copies_.size());
    copy_of_row_.resize(w_.rows(), number);
    copies_.push_back(
        {s, first, score.rows.rows(), instance, simulation_.events_of(first, score.rows.rows())});
    return number;
}

void Growing::append_rows(const Score& score) {
    const Workload& r = score.rows;
    auto rows = w_.rows(), lanes = static_cast<int32_t>(w_.lane_kind.size());
    auto instances = static_cast<int32_t>(w_.needed.size());
    for (int32_t v = 0; v < r.rows(); ++v) {
        int32_t device = score.devices[r.device[v]], lane = r.lane[v];
        bool pool = lane >= 0 && r.lane_kind[lane] == kPool;
        w_.lane.push_back(lane < 0 ? -1 : pool ? 2 * device + (r.kind[v] == kPlain) : lanes + lane);
        w_.device.push_back(device);
        w_.instance.push_back(r.instance[v] < 0 ? -1 : instances + r.instance[v]);
    }
    append(w_.src, r.src, rows);
    append(w_.duration, r.duration);
    append(w_.kind, r.kind);
    append(w_.priority, r.priority);
    append(w_.share, r.share);
    append(w_.waves, r.waves);
    append(w_.lane_kind, r.lane_kind);
}

void Growing::append_instances(const Score& score) {
    const Workload& r = score.rows;
    size_t jobs = r.job_plan.size();
    append(w_.needed, r.needed);
    append(w_.overhead, r.overhead);
    append(w_.instance_jobs, r.instance_jobs, w_.job_plan.size(), 1);
    append(w_.job_plan, r.job_plan, score.first_plan);
    for (size_t j = 0; j < jobs; ++j) {
        w_.job_gate.push_back(r.gate_of(static_cast<int32_t>(j)));
        w_.job_order.push_back(r.job_order.empty() ? 0 : r.job_order[j]);
        Rank rank = r.rank_of(static_cast<int32_t>(j));
        w_.job_priority.push_back(rank.priority);
        w_.job_weight.push_back(rank.weight);
    }
}

void Growing::release(int32_t number, int32_t rank) {
    const Copy& copy = copies_[number];
    const Score& score = scores_[copy.score];
    for (int32_t v = 0; v < score.rows.rows(); ++v)
        if (rank < 0 || score.rows.device[v] == rank) simulation_.release(copy.first_row + v);
}

void Growing::recycle_copy(int32_t copy) {
    scores_[copies_[copy].score].free_copies.push_back(copy);
}

}  // namespace chakra::sim::live
