// Engines behind a router: requests come, are placed, move from prefill to decode engines, and end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "core/serving/engine.hpp"

namespace chakra::serving {

enum class Router : int8_t { turn, least, prefix };

struct Pool {
    Role role = Role::whole;
    int32_t engines = 1;  // a multiple of `ranks`
    int32_t ranks = 1;  // engines that step together, as data-parallel attention with experts does
    Options options;
    CostTerms terms;
    std::function<Time(int64_t)> shared;  // by the tokens of all ranks: what they do together
};

// An engine that is down for a while.
struct Fault {
    Time at, duration;
    int32_t engine;
};

// Moving a prefilled cache: one at a time leaves an engine, one at a time enters another.
struct Handover {
    double ps_per_token = 0;
    Time latency = 0;
};

struct ClusterHooks {
    Hooks engine;
    // (request, engines that may take it) → the engine
    std::function<int32_t(int32_t, const std::vector<int32_t>&)> route, place;
    // (now) → engines that take new requests from now on; asked every `interval`
    std::function<int32_t(Time)> scale;
    Time interval = 0;
};

// A service level, and how many requests may miss it before the run is given up. Limits below 0 are
// none.
struct Level {
    Time ttft = -1, tpot = -1, e2e = -1;
    int64_t may_miss = -1;  // below 0: any number
};

struct Recording {
    bool steps = false;
    Time from = 0, to = 0;  // steps that start in this window also leave their pieces
    int64_t audit_every = 0;
};

struct Problem {
    std::shared_ptr<const Requests> requests;
    std::vector<Pool> pools;
    int64_t concurrency = 0;  // not 0: a request arrives when another ends
    Router router = Router::turn;
    Handover handover;
    std::vector<Fault> faults;
    ClusterHooks hooks;
    Recording recording;
    Level level;
    int64_t remote_blocks = 0;  // room in the store of cached content that engines share
};

struct StepRow {
    Time start, end;
    int32_t engine;
    int64_t tokens, prompt_tokens, requests, context, blocks, waiting;
};

struct PieceRow {
    int64_t step;
    int32_t request;
    int64_t tokens, context;
    int32_t gives;
};

struct MoveRow {
    int32_t request, source, target;
    Time start, end;
};

// Engines that step together: the numbers from `first` up to `last`.
struct Group {
    int32_t first, last;
    size_t pool;
};

// One run of a problem. Everything that happens at one time is taken together: arrivals first, then
// ends in order of the engines, then new steps.
class Cluster {
   public:
    explicit Cluster(Problem problem);
    void run();

    const std::vector<Progress>& progress() const { return progress_; }
    const std::vector<Engine>& engines() const { return engines_; }
    const std::vector<StepRow>& steps() const { return steps_; }
    const std::vector<PieceRow>& pieces() const { return pieces_; }
    const std::vector<MoveRow>& moves() const { return moves_; }
    Time now() const { return now_; }
    int64_t failures() const { return failures_; }
    // Whether too many requests missed the level, so that the rest was not served.
    bool given_up() const { return given_up_; }

   private:
    enum class Kind : int8_t { arrival, moved, fault, repaired, scale, step };
    struct Event {
        Time at;
        Kind kind;
        int64_t order;
        int32_t what, epoch;
        bool operator>(const Event& other) const {
            return std::tie(at, kind, order) > std::tie(other.at, other.kind, other.order);
        }
    };

    void push(Time at, Kind kind, int32_t what, int32_t epoch = 0);
    void happen(const Event& event);
    bool arrive_open();
    void arrive(int32_t request);
    int32_t routed(int32_t request, Role first, Role second);
    int32_t by_rule(int32_t request, const std::vector<int32_t>& choice);
    void step_ended(int32_t engine);
    void ended(int32_t request);
    void judge(int32_t request);
    void hand_over(int32_t request);
    void moved(int32_t request, int32_t epoch);
    void fail(int32_t fault);
    void record(const Batch& batch, const Engine& engine);
    void form_touched();
    void form(const Group& group);
    void touch(int32_t engine);

    Problem problem_;
    std::vector<Progress> progress_;
    std::vector<Cost> costs_;
    std::vector<Memo> shared_;
    std::vector<Group> groups_;
    std::vector<int32_t> group_of_;
    Tier remote_;
    std::vector<Engine> engines_;
    std::vector<std::vector<int32_t>> followers_;
    std::vector<int32_t> turn_, target_;
    std::vector<Time> announced_, out_free_, in_free_;
    std::vector<char> down_, touched_flag_, missed_;
    std::vector<int32_t> touched_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    std::vector<StepRow> steps_;
    std::vector<PieceRow> pieces_;
    std::vector<MoveRow> moves_;
    size_t next_ = 0;
    int64_t order_ = 0, happened_ = 0, failures_ = 0, left_ = 0, misses_ = 0;
    bool given_up_ = false;
    int32_t active_ = 0;
    double mean_prompt_ = 0;
    Time now_ = 0;
};

}  // namespace chakra::serving
