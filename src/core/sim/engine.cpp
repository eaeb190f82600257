#include "core/sim/engine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

#include "core/sim/device.hpp"
#include "core/sim/lanes.hpp"

namespace chakra::sim {

namespace {

using EventId = uint32_t;  // 2 * row for its start, 2 * row + 1 for its end
constexpr uint32_t kLaneKey = 0x80000000;
constexpr uint32_t kNoKey = 0xffffffff;

EventId source(const Workload& w, size_t e) {
    return 2 * static_cast<EventId>(w.src[e]) + (w.form[e] != 1);
}

// Edges grouped by the event they leave from.
struct Links {
    explicit Links(const Workload& w) : offsets(2 * w.duration.size() + 2, 0), edges(w.src.size()) {
        for (size_t e = 0; e < w.src.size(); ++e) ++offsets[source(w, e) + 2];
        std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
        for (size_t e = 0; e < w.src.size(); ++e)
            edges[offsets[source(w, e) + 1]++] = static_cast<int32_t>(e);
    }
    std::span<const int32_t> of(EventId event) const {
        return std::span(edges).subspan(offsets[event], offsets[event + 1] - offsets[event]);
    }
    std::vector<uint32_t> offsets;
    std::vector<int32_t> edges;
};

enum Kind : uint8_t { kStart, kEnd, kWorkDone, kGo, kRound };

struct Event {
    Time time;
    Kind kind;
    int32_t id;
    uint32_t version;
    bool operator>(const Event& other) const { return time > other.time; }
};

// A row that waits for its pool lane; the smallest goes first.
struct Ready {
    int32_t priority;
    Time since;
    int32_t row;
    bool operator<(const Ready& other) const {
        return std::tuple(-priority, since, row) <
               std::tuple(-other.priority, other.since, other.row);
    }
};

struct Pool {
    bool busy = false, waits = false;  // waits: already on the list of lanes to look at
    int32_t last = -1;                 // the row it ran last
    std::vector<Ready> ready;          // a heap, smallest first
};

class Engine {
   public:
    Engine(const Workload& w, const Plans& plans, Network& network, const Pick& pick);
    Outcome run() &&;

   private:
    struct Row {
        int32_t start_pending = 0, end_pending = 1;  // the own end is one
        uint32_t key = kNoKey;
        uint32_t version = 0;
        Time earliest = 0, latest = 0;
    };

    void release_all();
    Time next_time() const;
    void handle_all();
    bool handle_due();
    void handle(const Event& event);
    void constrain_start(int32_t row, Time time, uint32_t key);
    void constrain_end(int32_t row, Time time);
    void ready(int32_t row);
    void begin(int32_t row);
    void begin_work(int32_t row);
    void finish(int32_t row);
    void arrive(int32_t row);
    void go(int32_t instance);
    void end_job(int32_t job);
    void end_instance(int32_t instance);
    void free_lane(int32_t row);
    bool dispatch();
    int32_t take(Pool& pool, int32_t lane);
    void ask(int32_t row);
    void look_at(int32_t device);
    bool admit();
    void let_in(Device& device);
    void give_back(int32_t row);
    void await_round(int32_t device);
    void end_round(int32_t device);
    void touch(int32_t device);
    void settle_devices();
    void settle(int32_t device);
    void set_rate(Work& work, double rate);
    void work_done(int32_t row);
    void next_fault();
    void explain();

    const Workload& w_;
    const Plans& plans_;
    Network& network_;
    const Pick& pick_;
    Links links_;
    Lanes lanes_;
    Room room_;
    Outcome out_;
    Time now_ = 0;
    std::vector<Row> rows_;
    std::vector<Pool> pools_;
    std::vector<Device> devices_;
    std::vector<int32_t> dirty_devices_, asked_devices_, waiting_lanes_, finished_jobs_;
    std::vector<int32_t> job_instance_, jobs_left_, last_arrival_;
    std::vector<std::vector<int32_t>> members_;  // rows of each instance
    std::vector<Event> due_;                     // events of now, handled first in, first out
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    size_t fault_ = 0;
};

Engine::Engine(const Workload& w, const Plans& plans, Network& network, const Pick& pick)
    : w_(w),
      plans_(plans),
      network_(network),
      pick_(pick),
      links_(w),
      lanes_(w),
      room_(w),
      rows_(w.duration.size()),
      pools_(w.lane_kind.size()),
      devices_(w.comm_slowdown.size()),
      job_instance_(w.job_plan.size()),
      jobs_left_(w.needed.size()),
      last_arrival_(w.needed.size(), -1),
      members_(w.needed.size()) {
    out_.start.assign(rows_.size(), -1);
    out_.end.assign(rows_.size(), -1);
    out_.arrived.assign(w.needed.size(), 0);
    out_.began.assign(w.needed.size(), -1);
    out_.ended.assign(w.needed.size(), -1);
    out_.job_runs.assign(plans.plans(), 0);
    out_.job_ended.assign(w.job_plan.size(), -1);
    out_.binding.assign(rows_.size(), -1);
    out_.reason.assign(rows_.size(), kNone);
    for (size_t i = 0; i < w.needed.size(); ++i)
        for (int64_t j = w.instance_jobs[i]; j < w.instance_jobs[i + 1]; ++j)
            job_instance_[j] = static_cast<int32_t>(i);
    for (int32_t v = 0; v < w.rows(); ++v)
        if (w.instance[v] >= 0) members_[w.instance[v]].push_back(v);
}

Outcome Engine::run() && {
    release_all();
    for (Time t = next_time(); t != kNever && out_.diverged < 0; t = next_time()) {
        now_ = t;
        handle_all();
    }
    explain();
    return std::move(out_);
}

void Engine::release_all() {
    for (size_t e = 0; e < w_.src.size(); ++e)
        ++(w_.form[e] == 2 ? rows_[w_.dst[e]].end_pending : rows_[w_.dst[e]].start_pending);
    for (int32_t v = 0; v < w_.rows(); ++v) {
        rows_[v].start_pending += lanes_.follows[v];
        if (lanes_.releases[v] >= 0) ++rows_[lanes_.releases[v]].end_pending;
    }
    for (int32_t v = 0; v < w_.rows(); ++v)
        if (rows_[v].start_pending == 0) events_.push({w_.release[v], kStart, v, 0});
}

// --- time ---------------------------------------------------------------------------------------

Time Engine::next_time() const {
    Time next = network_.next_time();
    if (!events_.empty()) next = std::min(next, events_.top().time);
    // A fault after the last event changes nothing; before it, it is an event.
    if (fault_ < w_.fault_time.size() && next != kNever)
        next = std::min(next, w_.fault_time[fault_]);
    return next;
}

void Engine::handle_all() {
    while (fault_ < w_.fault_time.size() && w_.fault_time[fault_] <= now_) next_fault();
    do {
        while (handle_due()) {
        }
    } while (out_.diverged < 0 && (dispatch() || admit()));
    settle_devices();
    network_.settle(now_);
}

// Everything due now that is known now; true if there was any.
bool Engine::handle_due() {
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
    out_.events += static_cast<int64_t>(count);
    network_.step(now_, finished_jobs_);
    std::vector<int32_t> finished = std::move(finished_jobs_);
    finished_jobs_.clear();
    out_.events += static_cast<int64_t>(finished.size());
    for (int32_t job : finished) end_job(job);
    return count > 0 || !finished.empty();
}

void Engine::handle(const Event& event) {
    switch (event.kind) {
        case kStart: return ready(event.id);
        case kEnd: return finish(event.id);
        case kGo: return go(event.id);
        case kRound:
            if (devices_[event.id].version == event.version) end_round(event.id);
            return;
        case kWorkDone:
            if (rows_[event.id].version == event.version) work_done(event.id);
    }
}

// --- rows ---------------------------------------------------------------------------------------

void Engine::constrain_start(int32_t v, Time time, uint32_t key) {
    Row& row = rows_[v];
    if (time > row.earliest || (time == row.earliest && key < row.key)) {
        row.earliest = time;
        row.key = key;
    }
    if (--row.start_pending > 0) return;
    if (row.earliest <= now_)
        due_.push_back({now_, kStart, v, 0});
    else
        events_.push({row.earliest, kStart, v, 0});
}

void Engine::constrain_end(int32_t v, Time time) {
    Row& row = rows_[v];
    row.latest = std::max(row.latest, time);
    if (--row.end_pending > 0) return;
    if (row.latest <= now_)
        due_.push_back({now_, kEnd, v, 0});
    else
        events_.push({row.latest, kEnd, v, 0});
}

void Engine::ready(int32_t v) {
    if (room_.needed(v)) return ask(v);
    int32_t lane = w_.lane[v];
    if (lane < 0 || w_.lane_kind[lane] != kPool) return begin(v);
    Pool& pool = pools_[lane];
    pool.ready.push_back({w_.priority[v], now_, v});
    std::push_heap(pool.ready.begin(), pool.ready.end(), [](auto& a, auto& b) { return b < a; });
    if (!pool.waits) waiting_lanes_.push_back(lane);
    pool.waits = true;
}

void Engine::begin(int32_t v) {
    out_.start[v] = now_;
    for (int32_t e : links_.of(2 * static_cast<EventId>(v)))
        constrain_start(w_.dst[e], now_ + w_.lag[e], static_cast<uint32_t>(e) + 1);
    if (lanes_.releases[v] >= 0) constrain_end(lanes_.releases[v], now_);
    if (w_.kind[v] == kComm) return arrive(v);
    if (w_.kind[v] == kCompute && w_.duration[v] > 0) return begin_work(v);
    constrain_end(v, now_ + w_.duration[v]);
}

void Engine::finish(int32_t v) {
    out_.end[v] = now_;
    for (int32_t e : links_.of(2 * static_cast<EventId>(v) + 1)) {
        if (w_.form[e] == 2)
            constrain_end(w_.dst[e], now_ + w_.lag[e]);
        else
            constrain_start(w_.dst[e], now_ + w_.lag[e], static_cast<uint32_t>(e) + 1);
    }
    if (lanes_.follower[v] >= 0) constrain_start(lanes_.follower[v], now_, kLaneKey);
    free_lane(v);
    if (w_.kind[v] == kComm && w_.device[v] >= 0) {
        --devices_[w_.device[v]].communicating;
        touch(w_.device[v]);
    }
    if (room_.needed(v)) give_back(v);
}

// --- pool lanes ---------------------------------------------------------------------------------

void Engine::free_lane(int32_t v) {
    int32_t lane = w_.lane[v];
    if (lane < 0 || w_.lane_kind[lane] != kPool) return;
    Pool& pool = pools_[lane];
    pool.busy = false;
    if (!pool.waits && !pool.ready.empty()) {
        pool.waits = true;
        waiting_lanes_.push_back(lane);
    }
}

bool Engine::dispatch() {
    std::vector<int32_t> lanes = std::move(waiting_lanes_);
    waiting_lanes_.clear();
    if (pick_) std::sort(lanes.begin(), lanes.end());  // a policy is asked in order of rank
    bool any = false;
    for (int32_t lane : lanes) {
        Pool& pool = pools_[lane];
        pool.waits = false;
        if (pool.busy || pool.ready.empty()) continue;
        int32_t row = take(pool, lane);
        if (row < 0) continue;
        pool.busy = true;
        any = true;
        Row& state = rows_[row];
        if (now_ > state.earliest) {
            state.key = kLaneKey;
            out_.binding[row] = pool.last;
        }
        pool.last = row;
        begin(row);
    }
    return any;
}

// The row that goes first, or -1 where a policy wants none of those that are ready.
int32_t Engine::take(Pool& pool, int32_t lane) {
    auto later = [](const Ready& a, const Ready& b) { return b < a; };
    if (pick_) {
        std::sort(pool.ready.begin(), pool.ready.end());
        std::vector<int32_t> rows;
        for (const Ready& r : pool.ready) rows.push_back(r.row);
        int64_t chosen = pick_(lane, now_, rows);
        if (chosen < 0) return -1;
        pool.ready.erase(pool.ready.begin() + chosen);
        std::make_heap(pool.ready.begin(), pool.ready.end(), later);
        return rows[chosen];
    }
    std::pop_heap(pool.ready.begin(), pool.ready.end(), later);
    int32_t row = pool.ready.back().row;
    pool.ready.pop_back();
    return row;
}

// --- communication ------------------------------------------------------------------------------

void Engine::arrive(int32_t v) {
    if (w_.device[v] >= 0) {
        ++devices_[w_.device[v]].communicating;
        touch(w_.device[v]);
    }
    if (w_.after[v] < 0) constrain_end(v, now_ - w_.after[v] - 1);
    int32_t instance = w_.instance[v];
    int32_t& last = last_arrival_[instance];
    // Of those that arrive last the lowest row counts.
    if (last < 0 || out_.start[last] < now_ || v < last) last = v;
    if (++out_.arrived[instance] < w_.needed[instance]) return;
    out_.began[instance] = now_;
    if (w_.overhead[instance] > 0)
        events_.push({now_ + w_.overhead[instance], kGo, instance, 0});
    else
        due_.push_back({now_, kGo, instance, 0});
}

void Engine::go(int32_t instance) {
    int64_t first = w_.instance_jobs[instance], last = w_.instance_jobs[instance + 1];
    jobs_left_[instance] = static_cast<int32_t>(last - first);
    if (first == last) return end_instance(instance);
    for (int64_t j = first; j < last; ++j)
        network_.start(static_cast<int32_t>(j), w_.job_plan[j], now_);
}

void Engine::end_job(int32_t job) {
    ++out_.job_runs[w_.job_plan[job]];
    int32_t instance = job_instance_[job];
    Time& ended = out_.ended[instance];
    if (ended >= 0 && ended != now_) out_.diverged = instance;
    if (ended < 0) ended = now_;
    out_.job_ended[job] = now_;
    if (--jobs_left_[instance] == 0 && out_.diverged < 0) end_instance(instance);
}

void Engine::end_instance(int32_t instance) {
    out_.ended[instance] = now_;
    for (int32_t v : members_[instance])
        if (out_.start[v] >= 0 && w_.after[v] >= 0) constrain_end(v, now_ + w_.after[v]);
}

// --- room on a device ---------------------------------------------------------------------------

void Engine::ask(int32_t v) {
    room_.queue(devices_[w_.device[v]], v, now_);
    look_at(w_.device[v]);
    touch(w_.device[v]);
}

void Engine::look_at(int32_t d) {
    if (!devices_[d].asked) asked_devices_.push_back(d);
    devices_[d].asked = true;
}

// Lets in whoever finds room now; true if there was anyone.
bool Engine::admit() {
    std::vector<int32_t> devices = std::move(asked_devices_);
    asked_devices_.clear();
    bool any = false;
    for (int32_t d : devices) {
        Device& device = devices_[d];
        device.asked = false;
        while (!device.asking.empty()) {
            Asking& first = device.asking.front();
            int32_t behind = room_.in_the_way(device, first, now_);
            if (behind >= 0) {
                first.behind = behind;
                break;
            }
            let_in(device);
            any = true;
        }
    }
    return any;
}

void Engine::let_in(Device& device) {
    Asking first = device.asking.front();
    device.asking.erase(device.asking.begin());
    device.holders.push_back(first.row);
    if (now_ > first.since) {
        rows_[first.row].key = kLaneKey;
        out_.binding[first.row] = first.behind;
    }
    begin(first.row);
}

void Engine::give_back(int32_t v) {
    std::erase(devices_[w_.device[v]].holders, v);
    look_at(w_.device[v]);
}

// A row that is in the way comes first: until its last round has begun, nobody gets in.
void Engine::await_round(int32_t d) {
    Device& device = devices_[d];
    Time next = room_.next_round(device, now_, false);
    device.gives_up = next == kNever;
    if (device.gives_up) next = room_.next_round(device, now_, true);
    ++device.version;
    if (next != kNever) events_.push({next, kRound, d, device.version});
}

void Engine::end_round(int32_t d) {
    if (devices_[d].gives_up) devices_[d].round_end = now_;
    look_at(d);
    touch(d);
}

// --- devices ------------------------------------------------------------------------------------

void Engine::touch(int32_t device) {
    if (!devices_[device].dirty) dirty_devices_.push_back(device);
    devices_[device].dirty = true;
}

void Engine::begin_work(int32_t v) {
    auto work = static_cast<double>(w_.duration[v]);
    devices_[w_.device[v]].running.push_back({v, work, 0, now_, now_, 0});
    touch(w_.device[v]);
}

void Engine::settle_devices() {
    for (int32_t device : dirty_devices_) settle(device);
    dirty_devices_.clear();
}

void Engine::settle(int32_t d) {
    Device& device = devices_[d];
    device.dirty = false;
    double rate = device.factor;
    if (device.communicating > 0) rate /= 1 + w_.comm_slowdown[d];
    double each = room_.left(device);
    if (w_.fair && device.running.size() > 1) each /= static_cast<double>(device.running.size());
    for (Work& work : device.running)
        set_rate(work, rate * (std::min<double>(each, w_.share[work.row]) / kWhole));
    if (!device.asking.empty()) await_round(d);
}

void Engine::set_rate(Work& work, double rate) {
    if (work.rate == rate) return;
    work.remaining -= work.rate * static_cast<double>(now_ - work.since);
    work.remaining = std::max(0.0, work.remaining);
    work.rate = rate;
    work.since = now_;
    work.version = ++rows_[work.row].version;
    if (rate > 0 && work.remaining / rate < kFar) {
        Time end = now_ + static_cast<Time>(std::ceil(work.remaining / rate));
        events_.push({end, kWorkDone, work.row, work.version});
    }
}

void Engine::work_done(int32_t v) {
    Device& device = devices_[w_.device[v]];
    std::erase_if(device.running, [&](const Work& work) { return work.row == v; });
    if (!device.asking.empty()) look_at(w_.device[v]);
    touch(w_.device[v]);
    constrain_end(v, now_);
}

void Engine::next_fault() {
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

void Engine::explain() {
    for (int32_t v = 0; v < w_.rows(); ++v) {
        uint32_t key = rows_[v].key;
        if (key == kNoKey) continue;
        out_.reason[v] = key < kLaneKey ? kDependency : kResource;
        if (key < kLaneKey) out_.binding[v] = w_.src[key - 1];
    }
    for (int32_t v = 0; v < w_.rows(); ++v)
        if (int32_t next = lanes_.follower[v]; next >= 0 && out_.reason[next] == kResource &&
                                               out_.binding[next] < 0)  // room on a device is set
            out_.binding[next] = v;
    for (int32_t v = 0; v < w_.rows(); ++v) {
        if (w_.kind[v] != kComm || out_.start[v] < 0) continue;
        int32_t last = last_arrival_[w_.instance[v]];
        if (out_.start[last] <= out_.start[v]) continue;
        out_.reason[v] = kPeer;
        out_.binding[v] = last;
    }
}

}  // namespace

Outcome simulate(const Workload& workload, const Plans& plans, Network& network, const Pick& pick) {
    return Engine(workload, plans, network, pick).run();
}

}  // namespace chakra::sim
