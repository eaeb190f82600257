// Engines behind a router: requests come, are placed, move from prefill to decode engines, and end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "core/serving/bandwidth.hpp"
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
    // The same by tokens and ranks, where some of them are gone.
    std::function<Time(int64_t, int64_t)> shared_by_fewer;
    int64_t model = -1;  // the only one that it serves; -1: whatever is asked for
};

// An engine that is down for a while.
struct Fault {
    Time at, duration;
    int32_t engine;
};

// One of several engines that step together fails alone. The others lose the step they are in and
// pause; then they go on without it, until it is back after a second pause. `away` 0: it never is.
struct RankFault {
    Time at;
    int32_t engine;
    Time pause, away, back_pause;
};

// What a move takes between engines of two pools, besides its codec.
struct Way {
    double ps_per_token = 0;
    Time latency = 0;
};

// Moving a cache: one at a time leaves an engine, one at a time enters another. It is encoded, sent
// and decoded in equal pieces, each as soon as the one before is through.
struct Handover {
    Way usual{};
    std::vector<Way> ways{};  // by the pool that sends and the one that takes; empty: all as usual
    Bandwidth bandwidth{};
    std::vector<Codec> codecs{Codec{}};
    int64_t pieces = 1;

    // When a move that starts at a time is through.
    Time end(Time start, int64_t tokens, const Codec& codec, const Way& way) const;
    // What several parts take that follow each other piece by piece.
    double in_pieces(std::initializer_list<double> parts) const;
};

// What `route` and `place` answer where a request is to wait.
inline constexpr int32_t HOLD = -2;

struct ClusterHooks {
    Hooks engine;
    // (request, engines that may take it) → the engine, or HOLD
    std::function<int32_t(int32_t, const std::vector<int32_t>&)> route, place;
    // Whether a request that is held holds those that came after it.
    bool in_order = false;
    // (request, source, target) → the number of a codec
    std::function<int32_t(int32_t, int32_t, int32_t)> codec;
    // (engine, tokens of caches that it takes over) → the time until it is ready, on devices that
    // others have left
    std::function<Time(int32_t, int64_t)> open;
    // (engine, requests that got tokens and go on) → those of them that end now
    std::function<std::vector<int32_t>(int32_t, const std::vector<int32_t>&)> finish;
    // (engine, requests that run there) → (request, engine that it moves to)
    std::function<std::vector<std::pair<int32_t, int32_t>>(int32_t, const std::vector<int32_t>&)>
        migrate;
    // (now) → engines that take new requests from now on, or, where they did not, after `start_up`;
    // asked every `interval`
    std::function<std::vector<int32_t>(Time)> scale;
    Time interval = 0, start_up = 0;
    // (now, requests that ended) → more requests, or none. Asked at the start, whenever requests
    // ended, and every `source_interval` where that is not 0.
    std::function<std::shared_ptr<const Requests>(Time, const std::vector<int32_t>&)> next;
    Time source_interval = 0;
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
    Bandwidth store_bandwidth{};
    std::vector<RankFault> rank_faults{};
    std::vector<std::pair<int32_t, int32_t>> share_devices{};  // engines that cannot both be on
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
    int32_t request, source, target, codec;
    Time start, end;
};

// An engine that took over the devices of others.
struct OpenRow {
    int32_t engine;
    int64_t tokens;  // of caches that came with them
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
    Cluster(const Cluster&) = delete;  // engines know its requests and their progress by reference
    void run();

    const std::vector<Progress>& progress() const { return progress_; }
    const Requests& requests() const { return requests_; }
    // When a request is to have ended; NEVER where nobody says.
    Time deadline(int32_t request) const;
    // How long a step of an engine would take; ranks that step with it do as much.
    Time estimate(int32_t engine, const Thought& thought);
    // Tokens of an engine's cache, with those on their way to it.
    Tokens tokens(int32_t engine) const;
    // Engine time that was asked for, until requests that were there had left.
    Time on_for(int32_t engine) const;
    const std::vector<Engine>& engines() const { return engines_; }
    const std::vector<StepRow>& steps() const { return steps_; }
    const std::vector<PieceRow>& pieces() const { return pieces_; }
    const std::vector<MoveRow>& moves() const { return moves_; }
    const std::vector<OpenRow>& openings() const { return openings_; }
    // The factor of the links' bandwidth, and when a move between two engines could start.
    double link_factor() const { return problem_.handover.bandwidth.now(now_); }
    Time link_free(int32_t source, int32_t target) const;
    // What moves between two engines take.
    const Way& way(int32_t source, int32_t target) const;
    double store_factor() const { return problem_.store_bandwidth.now(now_); }
    // The pool of an engine, and whether it takes requests.
    size_t pool(int32_t engine) const {
        return groups_.at(static_cast<size_t>(group_of_.at(static_cast<size_t>(engine)))).pool;
    }
    bool open(int32_t engine) const {
        return !down_.at(static_cast<size_t>(engine)) &&
               scaled_[static_cast<size_t>(engine)] == Scaled::on;
    }
    Time now() const { return now_; }
    int64_t failures() const { return failures_; }
    // Whether too many requests missed the level, so that the rest was not served.
    bool given_up() const { return given_up_; }

   private:
    enum class Kind : int8_t {
        arrival,
        moved,
        fault,
        rank_fault,
        rank_back,
        resumed,
        repaired,
        scale,
        ready,
        source,
        step
    };
    // A request with a cache whose engine has left, and the engine that will have both.
    struct Carried {
        int32_t request, from, heir;
    };
    enum class Scaled : int8_t { off, starting, on, closing };
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
    bool may_take(int32_t request, const Engine& engine, Role first, Role second) const;
    int32_t routed(int32_t request, Role first, Role second);
    void ask_held();
    void ask_source();
    void add(const Requests& more);
    void follow(int32_t request);
    void note_group(int32_t request);
    bool source_waits() const;
    bool stuck();
    void scale();
    void start(int32_t engine);
    void switch_on(int32_t engine);
    void switch_off(int32_t engine);
    void let_finish(int32_t engine, const Outcome& outcome);
    void let_migrate(int32_t engine);
    void move(int32_t request, int32_t target);
    int32_t by_rule(int32_t request, const std::vector<int32_t>& choice);
    void step_ended(int32_t engine);
    void ended(int32_t request);
    void judge(int32_t request);
    void hand_over(int32_t request);
    void moved(int32_t request, int32_t epoch);
    void fail(int32_t fault);
    void fail_rank(const RankFault& fault);
    void return_rank(const RankFault& fault);
    int32_t alive(const Group& group) const;
    bool all_may_form(const Group& group) const;
    bool may_step(const Group& group) const;
    void balance(const Group& group);
    double store_work(const Options& options, const std::vector<int64_t>& blocks) const;
    Time together(const Group& group, int64_t tokens);
    bool shares_with_wanted(int32_t engine, const std::vector<char>& wanted) const;
    bool had_devices(int32_t engine, int32_t before) const;
    void start_again(const std::vector<char>& wanted);
    void want(int32_t engine);
    void let_go(int32_t engine, bool gives);
    void close(int32_t engine);
    void vacated(int32_t engine);
    void find_heirs();
    void open_where_free();
    void take_over(int32_t engine);
    void record(const Batch& batch, const Engine& engine);
    void form_touched();
    void form(const Group& group);
    void touch(int32_t engine);

    Problem problem_;
    std::shared_ptr<Requests> grown_;  // the requests where a source adds to them
    const Requests& requests_;
    std::vector<Progress> progress_;
    std::vector<Cost> costs_;
    std::vector<Memo> shared_;
    std::vector<Group> groups_;
    std::vector<int32_t> group_of_;
    Store remote_;
    std::vector<Engine> engines_;
    std::vector<std::vector<int32_t>> followers_;
    std::vector<int32_t> parents_left_;
    std::vector<Time> group_arrived_;
    std::deque<int32_t> held_;                           // until `route` names an engine
    std::vector<std::pair<int32_t, int32_t>> unplaced_;  // request and epoch, until `place` does
    std::vector<int32_t> ended_now_;
    std::vector<int64_t> coming_;  // tokens on their way to each engine
    std::vector<int32_t> turn_, target_;
    std::vector<Time> announced_, out_free_, in_free_;
    std::vector<char> down_, touched_flag_, missed_;
    std::vector<Scaled> scaled_;
    std::vector<Time> on_since_, on_for_;
    std::vector<std::vector<int32_t>> shares_;  // by engine: others on its devices
    std::vector<Carried> carried_;
    std::vector<OpenRow> openings_;
    std::vector<Time> paused_;        // by group
    std::vector<int64_t> held_back_;  // steps that its prompts have waited for each other, by group
    std::map<std::pair<size_t, int64_t>, Memo> shared_by_fewer_;
    std::vector<std::unique_ptr<ContentStore>> stores_;
    std::vector<char> opening_;
    std::vector<int32_t> switched_;  // how often, so that an old start-up is known as such
    std::vector<int32_t> touched_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    std::vector<StepRow> steps_;
    std::vector<PieceRow> pieces_;
    std::vector<MoveRow> moves_;
    size_t next_ = 0;
    size_t open_ = 0;  // requests of the stream, before those of a source
    int64_t order_ = 0, happened_ = 0, failures_ = 0, left_ = 0, misses_ = 0;
    int64_t periodic_ = 0, idle_ = 0;  // events that come again anyway; how often nothing else did
    bool given_up_ = false, changed_ = false;
    double mean_prompt_ = 0;
    Time now_ = 0;
};

}  // namespace chakra::serving
