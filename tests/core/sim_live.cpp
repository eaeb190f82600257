#include <string>
#include <vector>

#include "core/sim/check.hpp"
#include "core/sim/live/growing.hpp"
#include "core/sim/live/pool.hpp"
#include "harness.hpp"

using namespace chakra::sim;
using namespace chakra::sim::live;

namespace {

using Numbers = std::vector<int32_t>;
using Times = std::vector<Time>;

Task task(int32_t fibre, Time work, double key = 0, int32_t item = -1, Time change = 0) {
    Task t;
    t.token = {fibre, 0}, t.number = fibre;
    t.work = work;
    t.key = key;
    t.item = item;
    t.change = change;
    return t;
}

// Who is served, in this order, where all came at once.
Numbers served(Discipline discipline, const std::vector<Task>& tasks) {
    Pool pool(1, discipline, -1, 1);
    for (const Task& t : tasks) pool.add(t);
    Numbers order;
    for (const auto& [key, t] : pool.waiting) order.push_back(t.token.fibre);
    return order;
}

// Hands out work when it is asked to, and writes down what ended and when.
struct Script : Reactor {
    Growing* world = nullptr;
    Numbers rows, jobs;
    Times row_times, job_times;
    Times wakes;  // when `act` is called, in order
    void (*act)(Script&) = nullptr;
    size_t woken = 0;

    void row_ended(int32_t row) override {
        rows.push_back(row);
        row_times.push_back(world->now());
    }
    void job_ended(int32_t job) override {
        jobs.push_back(job);
        job_times.push_back(world->now());
    }
    bool react(Time now) override {
        if (woken >= wakes.size() || wakes[woken] > now) return false;
        ++woken;
        act(*this);
        return true;
    }
    Time next_time() override { return woken < wakes.size() ? wakes[woken] : kNever; }
    bool goes_on(Time) override { return true; }
    bool waits() override { return false; }
};

// Two devices with a link each way, of a byte per picosecond.
struct Site {
    Script script;
    Growing world;

    explicit Site(Times wakes, void (*act)(Script&))
        : world(workload(), Topology{{1.0, 1.0}, {0}, {}}, true, script) {
        script.world = &world;
        script.wakes = std::move(wakes);
        script.act = act;
    }
    static Workload workload() {
        Workload w;
        w.comm_slowdown = {0, 0};
        w.instance_jobs = {0};
        w.lane_kind.assign(4, kPool);
        check(w);
        return w;
    }
    void run() { world.run(); }
};

}  // namespace

STORY("a line is served first come first, by priority, or by deadline, and equals as they came") {
    std::vector<Task> tasks = {task(0, 5, 2), task(1, 5, 9), task(2, 5, 2), task(3, 5, 1)};
    EXPECT(served(kFifo, tasks), {0, 1, 2, 3});
    EXPECT(served(kPriority, tasks), {1, 0, 2, 3});
    EXPECT(served(kDeadline, tasks), {3, 0, 2, 1});
}

STORY("a task takes longer where its item is not resident, and a place forgets the oldest") {
    Pool pool(2, kFifo, -1, 2);
    EXPECT(pool.start(task(0, 10, 0, 7, 100), 0, 0), 110);
    EXPECT(pool.place_for(7), 1);  // place 0 has it and is busy
    pool.finish(0, 110);
    EXPECT(pool.place_for(7), 0);
    EXPECT(pool.start(task(1, 10, 0, 7, 100), 0, 110), 120);
    pool.finish(0, 120);
    for (int32_t item : {8, 9}) {
        pool.start(task(2, 1, 0, item, 5), 0, 120);
        pool.finish(0, 126);
    }
    EXPECT(pool.places[0].items, {8, 9});
    EXPECT(pool.use.changes, 3);
    EXPECT(pool.use.ended, 4);
}

STORY("a full pool turns tasks away, and one that withdraws makes room") {
    Pool pool(1, kFifo, 1, 1);
    pool.start(task(0, 10), 0, 0);
    EXPECT(pool.full(), false);
    pool.add(task(1, 10));
    EXPECT(pool.full(), true);
    EXPECT(pool.withdraw({1, 0}), true);
    EXPECT(pool.withdraw({1, 0}), false);
    EXPECT(pool.full(), false);
}

STORY("tasks that share two places run at full speed by twos and slower by fours") {
    Shared shared(2);
    Task ended;
    for (int32_t i = 0; i < 2; ++i) shared.add(task(i, 100), 0);
    EXPECT(shared.next_time(), 100);
    for (int32_t i = 2; i < 4; ++i) shared.add(task(i, 100), 50);
    EXPECT(shared.next_time(), 150);  // 50 are left of the first two, at half speed
    EXPECT(shared.take(149, ended), false);
    EXPECT(shared.take(150, ended), true);
    EXPECT(shared.take(150, ended), true);
    EXPECT(shared.next_time(), 200);  // the others have had 50 of 100 and are alone now
    EXPECT(shared.remove({2, 0}, 160), true);
    EXPECT(shared.size(), 1u);
    EXPECT(shared.next_time(), 200);
}

STORY("kernels of one device run one after another and those of its host beside them") {
    Site site({0}, [](Script& s) {
        s.world->compute(0, false, 100, 0);
        s.world->compute(0, false, 50, 0);
        s.world->compute(0, true, 70, 0);
        s.world->compute(1, false, 30, 0);
    });
    site.run();
    EXPECT(site.script.row_times, {30, 70, 100, 150});
}

STORY("messages share a link, and each is told when it has arrived") {
    Site site({0, 40}, [](Script& s) {
        const int64_t link = 0;
        static int32_t route;
        if (s.woken == 1) route = s.world->add_route({&link, 1});
        s.world->send({s.world->add_message(route, 100, 100, 10), {}}, 0);
    });
    site.run();
    // The first flows from 10 on, alone until 50: 60 of its bytes are left and share with the
    // other, which has 40 left at 170 and the link to itself.
    EXPECT(site.script.job_times, {170, 210});
}

STORY("rows and transfers that have ended are used again") {
    Site site({0, 100, 200}, [](Script& s) {
        for (int32_t row : s.rows) s.world->recycle_row(row);
        s.rows.clear();
        s.world->compute(0, false, 10, 0);
    });
    site.run();
    EXPECT(site.script.row_times, {10, 110, 210});
    EXPECT(site.script.rows, {0});
}
