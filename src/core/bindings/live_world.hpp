// Programs that react, as Python generators: what they yield is done on a growing simulation, and
// they are resumed with what came of it.
//
// At one time everything physical happens first. Then messages are delivered, by sender and in the
// order they were sent; then waits that are over end; then programs go on, by actor. Only when all
// of them wait do pools decide who is next.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sim/live/growing.hpp"
#include "core/sim/live/pool.hpp"
#include "core/sim/ways.hpp"

namespace nb = nanobind;

namespace chakra::bind::live {

using sim::Time;
using sim::live::Task;
using sim::live::Token;

enum Op : uint8_t {
    kSleep,
    kCompute,
    kSend,
    kReceive,
    kCollective,
    kAccess,
    kUse,
    kAllOf,
    kAnyOf,
    kSpawn,
    kPlay
};

// What a program asks for and cannot have; a ConfigError in Python.
struct Refused : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// Counts what is made and dropped without being done: a verb that was never yielded. What is moved
// elsewhere counts there.
class Undone {
   public:
    Undone() = default;
    Undone(Undone&& other) noexcept : undone_(std::exchange(other.undone_, false)) {}
    Undone(const Undone&) = delete;
    Undone& operator=(const Undone&) = delete;
    ~Undone() { count += undone_; }
    void done() { undone_ = false; }
    static inline int64_t count = 0;

   private:
    bool undone_ = true;
};

// What a program asks for. The fields mean what core/bindings/live.cpp says for each kind.
struct Verb {
    Op op = kSleep;
    bool flag = false;
    Time time = -1, more = 0;
    int64_t size = 0;
    double key = 0;
    int32_t number = 0;
    sim::Rank rank;
    nb::object a, b, c;
    Undone undone;
};

struct Message {
    nb::object sender, body;
    int32_t from = -1;
    int64_t size = 0, number = 0, record = -1;
    Time sent = 0, arrived = 0;
};

// The members of collectives, by actor, and the calls that not all of them have made.
struct Group {
    struct Open {
        int64_t sequence;
        int32_t instance, missing;
        nb::object kind;
        int64_t size;
        int32_t root, first;
    };
    std::vector<int32_t> members;
    std::vector<int64_t> called;
    std::vector<Open> open;
    int32_t number = -1;  // of all groups that were used
};

// Traces that are played together; each rank begins when its program says so.
struct Playing {
    int32_t score = -1, copy = -1;
    std::vector<int32_t> left;   // rows, by rank
    std::vector<Token> waiting;  // by rank; the first alone where one program plays all
    std::vector<int32_t> actors;
    int32_t rows_left = 0;
    bool whole = false;
};

// How messages find their way and what they cost: nothing but their bytes where they are `plain`,
// else what the world is asked for, instead of the way's latency where they are `timed`.
struct Messages {
    std::shared_ptr<sim::Ways> ways;
    std::vector<double> bandwidth, latency;  // of each link, in bytes per second and seconds
    Time before = 0;                         // picoseconds before bytes flow, besides the latency
    bool plain = true, timed = false;
};

class World final : public sim::Reactor {
   public:
    World(sim::Workload site, sim::Topology links, bool flow, Messages messages, bool records);

    // Drops every Python object, since programs refer to their world and it to them.
    void let_go();
    int traverse(visitproc visit, void* arg) const;

    int32_t add_actor(nb::object handle, nb::object name, int32_t device, bool daemon,
                      nb::object faults);
    void begin(int32_t actor, nb::object program, Time at);
    void crash_at(int32_t actor, Time at, Time until);
    int32_t add_pool(int32_t width, int discipline, int64_t most_waiting, int32_t holds,
                     nb::object policy);
    void run(Time until, nb::object hooks);
    Time now() const { return growing_.now(); }
    // When the last thing happened, or the time at which the run was stopped before its end.
    Time end() const { return stopped_ ? until_ : now(); }
    sim::live::Growing& growing() { return growing_; }

    nb::dict records();
    nb::dict links();
    nb::list stuck() const;
    nb::list unread()
        const;  // messages that came for actors whose programs had ended, and how many
    nb::list pools() const;
    nb::list plays();
    nb::list resident(int32_t pool, int32_t place) const;  // items, the last used last
    int64_t verbs() const { return verbs_; }
    nb::object returned(int32_t actor) const { return actors_[actor].returned; }

    void row_ended(int32_t row) override;
    void job_ended(int32_t job) override;
    bool react(Time now) override;
    Time next_time() override;
    bool goes_on(Time next) override {
        stopped_ = next > until_ && next != sim::kNever;
        return next <= until_;
    }
    bool waits() override { return under_way_ > 0; }

   private:
    enum TimerKind : uint8_t { kWake, kPlaceEnd, kShareEnd, kCrash, kRestart, kLate };

    struct Timer {
        Time time;
        int64_t number;
        TimerKind kind;
        int32_t id, place;
        uint32_t version;
        bool operator>(const Timer& o) const {
            return std::pair(time, number) > std::pair(o.time, o.number);
        }
    };

    struct Actor {
        nb::object handle, faults, returned;
        int32_t device = 0;
        bool daemon = false, down = false;
        std::deque<nb::object> box;
        std::vector<int32_t> receivers;  // fibres, in the order in which they began to wait
        Time last_time = -1;             // of a verb, and how many it has yielded at that time
        int32_t at_once = 0;
    };

    // A program or a part of one: a generator, or a single verb of an all_of or any_of.
    struct Fibre {
        nb::object generator, verb;
        int32_t actor = -1, parent = -1, index = 0;
        uint32_t version = 0;
        bool alive = false, waiting = false, daemon = false;
        Time since = 0;
        int32_t place = -1;  // of a pool
        int64_t record = -1;
        std::vector<int64_t> last;        // records that what it does next follows
        std::vector<int64_t> before;      // the same when it began to receive
        std::vector<nb::object> results;  // of its children, or messages
        std::vector<int32_t> children;
        int32_t missing = 0;
    };

    static constexpr int32_t kBeside = -1;  // `index` of a part that runs beside its program

    struct Ready {
        Token token;
        nb::object value;
    };

    struct RowOwner {
        Token token;
        int32_t instance = -1;
    };

    struct Flight {
        Token token;
        nb::object message;
        int32_t from = -1, to = -1, device = 0;
    };

    // A way that messages took, and what says what they cost there.
    struct Pair {
        int32_t route = -1;
        Time latency = 0;
        double bandwidth = std::numeric_limits<double>::infinity();  // of its narrowest link
        int outermost = -1;  // the dimension that it leaves by
        int64_t size = -1;   // of its first message, and that message's plan
        int32_t plan = -1;
    };

    struct Cost {
        double bytes = 0;
        Time delay = 0;
    };

    template <class... Keys>
    struct Mixed {
        size_t operator()(const std::tuple<Keys...>& key) const {
            return std::apply(
                [](const auto&... part) {
                    size_t seed = 0;
                    ((seed = (seed ^ std::hash<Keys>{}(part)) * 0x9E3779B97F4A7C15,
                      seed ^= seed >> 29),
                     ...);
                    return seed;
                },
                key);
        }
    };
    template <class Value, class... Keys>
    using MapOf = std::unordered_map<std::tuple<Keys...>, Value, Mixed<Keys...>>;

    struct NamedPool {
        sim::live::Pool pool;
        nb::object policy;
        bool changed = false;
    };

    // `peer` of the record of a kernel: whether the host ran it, and whether its program said how
    // long; `place` is its element type's name, and `link` its FLOPs.
    static constexpr int32_t kOnHost = 1, kTimed = 2;

    // What was done: a node of the Run that comes out.
    struct Record {
        int32_t actor, name, peer, place;
        Op op;
        bool received;
        int16_t label;
        Time start, end;
        int64_t size, link;
    };

    struct Late {
        int32_t from, to;
        nb::object message;
        sim::Rank rank;
        Token token;
    };

    // fibres
    int32_t new_fibre(int32_t actor, int32_t parent, int32_t index);
    void free_fibre(int32_t f);
    void wait(int32_t f, nb::handle verb);
    Token token(int32_t f) const { return {f, fibres_[f].version}; }
    bool current(Token t) const {
        return t.fibre >= 0 && fibres_[t.fibre].alive && fibres_[t.fibre].version == t.version;
    }
    void complete(Token t, nb::object value);
    void finish(int32_t f, nb::object value);
    void child_finished(int32_t parent, int32_t index, nb::object value);
    void cancel(int32_t f);
    void withdraw(int32_t f);
    void resume(int32_t f, nb::object value);
    void raise_from(int32_t f);
    void count_verb(int32_t f);
    nb::object program_of(int32_t f) const;
    void begin_child(int32_t parent, int32_t index, nb::object what);

    // verbs; each true if it is over at once, with its value
    bool perform(int32_t f, nb::handle verb, nb::object& value);
    nb::object spawn(int32_t f, Verb& v);
    bool compute(int32_t f, Verb& v);
    bool send(int32_t f, Verb& v, nb::object& value);
    void launch(Token t, int32_t from, int32_t to, nb::object message, sim::Rank rank);
    bool receive(int32_t f, Verb& v, nb::object& value);
    bool fits(int32_t f, const nb::object& message);
    bool take(int32_t f, nb::object& message);
    nb::object taken(int32_t f);
    bool collective(int32_t f, Verb& v, nb::object& value);
    Group::Open& call_of(Group& group, int64_t sequence, Verb& v, int32_t actor);
    bool access(int32_t f, Verb& v);
    bool use(int32_t f, Verb& v, nb::object& value);
    bool together(int32_t f, Verb& v, nb::object& value);
    bool play(int32_t f, Verb& v, nb::object& value);

    // time
    void at(Time time, TimerKind kind, int32_t id, uint32_t version, int32_t place = 0);
    bool fire_timers(Time now);
    bool is_stale(const Timer& timer);
    void fire(const Timer& timer);
    bool deliver_arrivals();
    void deliver(int32_t actor, nb::object message);
    void crash(int32_t actor);
    bool dispatch_pools();
    bool dispatch(int32_t pool);
    bool dispatch_by_policy(int32_t pool);
    void start_task(int32_t pool, Task task, int32_t place);
    void end_task(int32_t pool, const Task& task, int32_t place, Time began);
    void look_at(int32_t pool);

    // records
    // What the program does next follows it, unless it is not waited for.
    int64_t note(int32_t f, Op op, nb::handle name, int64_t size, bool waited_for = true);
    void keep_times(const Playing& playing, int32_t first, int32_t last);
    void close_record(int64_t record) {
        if (record >= 0) records_[record].end = now();
    }
    int32_t name_number(nb::handle name);
    int32_t actor_number(nb::handle who) const;
    int32_t message_plan(int32_t from, int32_t to, int64_t size);
    int32_t new_plan(const Pair& pair, int32_t from, int32_t to, int64_t size);
    Pair& pair_of(int32_t from, int32_t to);
    Cost cost_of(const Pair& pair, int32_t from, int32_t to, int64_t size);

    nb::object hooks_;
    Messages how_;
    bool records_kept_;
    sim::live::Growing growing_;
    Time until_ = sim::kNever;
    std::vector<Actor> actors_;
    std::unordered_map<std::string, int32_t> names_;
    std::vector<Fibre> fibres_;
    std::vector<int32_t> free_fibres_;
    std::vector<Ready> ready_;
    std::vector<Ready> late_done_;  // children that were over at once
    std::vector<int32_t> finished_copies_;
    std::vector<Flight> arrivals_;
    std::unordered_map<int32_t, Flight> flights_;  // by job
    std::unordered_map<int32_t, RowOwner> rows_;
    std::unordered_map<int32_t, int32_t> instance_left_;
    std::unordered_map<int32_t, nb::object> playing_;  // by copy
    MapOf<Pair, int32_t, int32_t> pairs_;              // by sender and receiver
    MapOf<int32_t, int32_t, int64_t> plans_;           // by way and size, where a pair has several
    MapOf<Cost, int64_t, double, int, Time> costs_;    // by size, bandwidth, dimension and latency
    sim::Way way_;
    std::vector<NamedPool> pools_;
    std::vector<int32_t> changed_pools_;
    std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
    std::vector<Late> late_;
    nb::dict items_, name_numbers_;
    nb::list names_in_order_;
    std::vector<Record> records_;
    std::vector<int64_t> dep_offsets_{0}, deps_;
    std::vector<Time> play_starts_, play_ends_;
    std::vector<int64_t> play_actors_, play_scores_, play_offsets_{0};
    int64_t timer_numbers_ = 0, messages_ = 0, verbs_ = 0;
    int32_t under_way_ = 0, groups_ = 0;
    bool stopped_ = false;
    int16_t label_ = -1;
};

}  // namespace chakra::bind::live
