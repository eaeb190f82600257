// The state of one run of the engine. Its parts: simulation.cpp (time, rows, reasons),
// communication.cpp (instances and their jobs), devices.cpp (room and speed of devices).
//
// The workload of a simulation with a reactor may grow while it runs: programs add what they decide
// to do (core/sim/live).
#pragma once

#include <queue>
#include <vector>

#include "core/sim/device.hpp"
#include "core/sim/engine.hpp"
#include "core/sim/gates.hpp"
#include "core/sim/pools.hpp"
#include "core/timing/kernel.hpp"

namespace chakra::sim {

// What reacts while a simulation runs. It is told of ends, and asked once everything that is due
// and known has been handled, as often as it does something.
class Reactor {
   public:
    virtual ~Reactor() = default;
    virtual void row_ended(int32_t row) = 0;
    virtual void job_ended(int32_t job) = 0;  // one that belongs to no instance
    virtual bool react(Time now) = 0;
    virtual Time next_time() = 0;
    virtual bool goes_on(Time next) = 0;
    virtual bool waits() = 0;  // whether something of it is on a device or on links
};

class Simulation {
   public:
    Simulation(const Workload& w, const Plans& plans, Network& network, const Pick& pick);
    Outcome run() &&;

    // --- for a reactor ---

    void react_with(Reactor& reactor) { reactor_ = &reactor; }
    void run_on();
    Time now() const { return now_; }
    const Outcome& outcome() const { return out_; }

    // The workload has got more rows, `more` of them in these constraints, lanes, instances or
    // jobs, and there may be more plans. The new rows wait to be released.
    void grow(const Constraints& more, int32_t plans);
    void release(int32_t row);
    // A row without edges that has ended is as it was before.
    void forget(int32_t row);
    // The same for an instance, without members, and with those it had.
    void open(int32_t instance);
    void reopen(int32_t instance);
    void add_member(int32_t instance, int32_t row) { members_[instance].push_back(row); }
    // The events of rows, and rows as they were then.
    std::vector<Kernel::Event> events_of(int32_t first, int32_t rows) const;
    void restore(int32_t first, const std::vector<Kernel::Event>& events);
    // A transfer that belongs to no instance, and a device that takes part in one.
    void start_free_job(int32_t job);
    void count_communication(int32_t device, int32_t change);

   private:
    enum Kind : uint8_t { kStart, kEnd, kWorkDone, kGo, kRound };

    struct Event {
        Time time;
        Kind kind;
        int32_t id;        // row (start, end, work done), instance (go) or device (round)
        uint32_t version;  // of the work or the round; events of older versions are stale
        bool operator>(const Event& other) const { return time > other.time; }
    };

    // simulation.cpp
    void fit_to_workload(int32_t plans);
    void release_all();
    bool goes_on(Time next);
    int32_t transferring() const;
    Time next_time() const;
    void handle_all();
    bool handle_due();
    void handle(const Event& event);
    void schedule(Time time, Kind kind, int32_t id);
    void due(EventId event) {
        schedule(kernel_[event].time, is_end(event) ? kEnd : kStart, row_of(event));
    }
    void fire(EventId event);
    void own_end(int32_t row, Time delay);
    void held_by_resource(int32_t row, int32_t holder, Time since);
    bool in_pool(int32_t row) const;
    void ready(int32_t row);
    void begin(int32_t row);
    void finish(int32_t row);
    bool dispatch();
    void next_fault();
    void explain();
    void explain_rows();
    void explain_peers();

    // communication.cpp
    void arrive(int32_t row);
    void go(int32_t instance);
    void start_job(int32_t job);
    bool pass_gates();
    void end_job(int32_t job);
    void end_instance(int32_t instance);

    // devices.cpp
    void ask(int32_t row);
    void look_at(int32_t device);
    bool admit();
    bool admit_to(Device& device);
    void let_in(Device& device);
    void give_back(int32_t row);
    void await_round(int32_t device);
    void end_round(int32_t device);
    void begin_moving(int32_t row);
    void end_moving(int32_t row);
    void touch(int32_t device);
    void begin_work(int32_t row);
    void settle_devices();
    void settle(int32_t device);
    double fair_demand(const std::vector<Work>& running, double rate) const;
    void set_rate(Work& work, double rate);
    void work_done(int32_t row, uint32_t version);

    const Workload& w_;
    Network& network_;
    const Pick& pick_;
    Reactor* reactor_ = nullptr;
    Kernel kernel_;
    Pools pools_;
    Room room_;
    Gates gates_;
    Outcome out_;
    Time now_ = 0;
    std::vector<Device> devices_;
    std::vector<int32_t> dirty_devices_, asked_devices_, finished_jobs_;
    std::vector<int32_t> job_instance_, jobs_left_, last_arrival_;
    std::vector<std::vector<int32_t>> members_;  // by instance: its rows
    std::vector<char> moving_;                   // by row: whether its bytes are on the network
    std::vector<Event> due_;                     // events of now, first in, first out
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    size_t fault_ = 0;
    int32_t ended_ = 0;  // rows
};

}  // namespace chakra::sim
