// One engine: a queue, requests that run, a cache of their keys and values, and steps in flight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/serving/batch.hpp"
#include "core/serving/blocks.hpp"
#include "core/serving/content.hpp"
#include "core/serving/cost.hpp"
#include "core/serving/requests.hpp"

namespace chakra::serving {

enum class Discipline : int8_t { continuous, prefill_alone, transformers };
enum class Role : int8_t { whole, prefill, decode };

struct Options {
    int64_t block_size = 16, num_blocks = 0;
    int64_t token_budget = 2048, max_requests = 128;
    int64_t chunk_limit = 0;  // most prompt tokens of one request in a step; 0: the budget
    Discipline discipline = Discipline::continuous;
    bool chunked = true, prefill_first = false, prefix_cache = false, whole_prompt = false;
    bool priorities = false;    // whether they decide a request's place in the queue
    double safety_margin = 0;   // part of the blocks that new prompts leave free
    double output_reserve = 0;  // part of the output still to come that admission counts as needed
    bool no_evict = false;      // new requests start only if all that run can end where they are
    int64_t gather_steps = 0;  // steps that new prompts wait for others beside requests that decode
    double gather_share = 0;   // the part of the token budget that ends that waiting
    int64_t balance_steps = 0;        // steps that they wait until every rank has a prompt
    int64_t look_steps = 0;           // decoding steps between two looks at the queue
    int64_t swap_blocks = 0;          // room on the host for requests that are put aside
    int64_t host_blocks = 0;          // room on the host for content that leaves the device
    double ps_per_block = 0;          // moving a block between device and host
    double ps_per_remote_block = 0;   // the same for the store that engines share
    int64_t content_tokens = 0;       // room for content that is found wherever it stands
    int64_t content_first = 0;        // the first engine that the content is spread over, and
    int64_t content_shards = 1;       // how many they are
    double ps_per_rotated_token = 0;  // putting found content at its place
    double ps_per_fetched_token = 0;  // getting it from another engine
    double recomputed = 0;            // part of it that is computed all the same
    int64_t divide_every = 0;         // requests between two questions where the border should be
    bool eager = false;               // a cache that grows is filled at once
    int32_t depth = 1;                // steps formed before the first of them ends
    int32_t stages = 1;               // a pipeline's; a request is in one step at a time
    Time host = 0, host_per_request = 0, host_per_token = 0, output = 0, launch = 0, warmup = 0;
    Time serial = 0, serial_per_request = 0;  // of a step on the host, before the device begins
    Time frontend = 0;                        // between arrival and the queue
    Time prompt_launch = 0;  // the least time of a step with a prompt, which no graph holds
    int64_t drafts = 0;
    double acceptance = 0;
    int64_t max_adapters = 0;
    uint64_t seed = 0;
};

// Tokens of content that is remembered after it left, where the border to the pages may move.
int64_t remembered_tokens(const Options& options);

// Decisions that a user may take over. An empty function leaves the engine's own way.
struct Hooks {
    // (engine, request) → whether a waiting request may start now
    std::function<bool(int32_t, int32_t)> admit;
    // (engine, running, waiting) → (request, most tokens) in the order to be tried
    std::function<std::vector<std::pair<int32_t, int64_t>>(int32_t, const std::vector<int32_t>&,
                                                           const std::vector<int32_t>&)>
        batch;
    // (engine, candidates) → the request that gives way
    std::function<int32_t(int32_t, const std::vector<int32_t>&)> preempt;
    // (engine, free blocks with content, least recently used first) → the block to reuse
    std::function<int32_t(int32_t, const std::vector<int32_t>&)> evict;
    // (engine, request that computed it) → the codec of a block that goes to the shared store
    std::function<int32_t(int32_t, int32_t)> store_codec;
    // (engine) → the share of its memory that content gets, the rest being pages; below 0: as it is
    std::function<double(int32_t)> divide;
};

// What requests found in one of an engine's two caches since it was last divided, in tokens.
struct Found {
    int64_t hits = 0, misses = 0, near_misses = 0;  // near: it left lately
};

// An engine's memory, divided between content and pages.
struct Division {
    double share = 0;      // of content
    int64_t requests = 0;  // that started since it was last divided
    Found content, pages;
    int64_t blocks = 0, tokens = 0;  // refills that the next step waits for
};

// A step that is thought of: so many requests that decode on top of `context` tokens in all, and
// one prompt.
struct Thought {
    int64_t decodes = 0, context = 0, prompt_tokens = 0, prompt_context = 0;
};

// Tokens of an engine's cache that are filled, that requests which wait will fill when they start,
// and that are to be computed for these.
struct Tokens {
    int64_t held = 0, promised = 0, prompts_waiting = 0;
};

struct Totals {
    int64_t steps = 0, preemptions = 0, swaps = 0, asked_tokens = 0, hit_tokens = 0, host_hits = 0;
    int64_t remote_hits = 0, content_hits = 0, fetched_tokens = 0, refilled_tokens = 0;
    int64_t peak_blocks = 0, tokens = 0, pieces = 0, drafted = 0, accepted = 0;
    Time busy = 0;
    double block_time = 0;      // blocks held × picoseconds
    double gap_time = 0;        // all gaps between a request's tokens, in picoseconds
    std::vector<int64_t> gaps;  // how many there are: 64 bins an octave of picoseconds
};

// What the end of a step brought about.
struct Outcome {
    Batch batch;
    std::vector<int32_t> gave, finished, handed_over;
};

class Engine {
   public:
    Engine(int32_t number, Role role, const Options& options, const Requests& requests,
           std::vector<Progress>& progress, Cost& cost, const Hooks& hooks, Store& store,
           uint64_t salt, const std::vector<std::unique_ptr<ContentStore>>& stores);

    void arrive(int32_t request);
    // Whether another step may be formed now.
    bool may_form() const {
        return flights_.size() < static_cast<size_t>(std::max(options_.depth, options_.stages));
    }
    // The next step; empty where there is nothing to do.
    Batch form(Time now);
    // Runs a step, which takes `whole` on the device; ranks that have none take part with an empty
    // one.
    // `most` is the size of the largest of the ranks' steps, which the host prepares together.
    void launch(Batch&& batch, Time whole, Time now, const Composition& most, Time count);
    // What a step takes on this engine alone.
    Time cost(const Batch& batch) { return cost_(batch); }
    std::vector<std::array<int64_t, 3>> padded_steps() const { return cost_.padded_steps(); }
    // When the oldest step in flight ends and its tokens have been handed out; NEVER without one.
    Time next() const { return flights_.empty() ? NEVER : flights_.front().end + options_.output; }
    Outcome finish(Time now);
    // A prefilled request's cache has left.
    void release(int32_t request);
    // A request that runs here ends before its output does.
    void stop(int32_t request, Time now);
    // A request that runs here leaves; its cache stays until it is released.
    void depart(int32_t request);
    // How long a step would take, by its parts that do not wait for others.
    Time estimate(const Thought& thought);
    Tokens tokens() const;
    // Steps in flight are lost, and nothing runs before a time; caches are kept.
    void pause(Time now, Time until);
    // Everybody leaves, with nothing in flight: those that wait, and those that run with the tokens
    // they have, who get their cache back elsewhere.
    std::pair<std::vector<int32_t>, std::vector<int32_t>> vacate(Time now);
    bool flying() const { return !flights_.empty(); }
    // Everything is lost; gives the requests that must start again elsewhere.
    std::vector<int32_t> fail(Time now);
    // Prompt tokens of a request that need not be computed here.
    int64_t matched(int32_t request) const;
    // Whether new prompts may start in the next step; ranks that step together agree on it.
    void let_start(bool may) { may_start_ = may; }
    // Whether that may be more than `tokens`: found out with one look, and never wrongly denied.
    bool may_match(int32_t request, double tokens) const;
    // Throws where a block is lost or held twice.
    void audit() const;

    int32_t number() const { return number_; }
    Role role() const { return role_; }
    const Totals& totals() const { return totals_; }
    const Blocks& blocks() const { return blocks_; }
    const Division& division() const { return division_; }
    // Tokens that its two caches have room for together.
    int64_t memory_tokens() const {
        return options_.num_blocks * options_.block_size + options_.content_tokens;
    }
    const std::deque<int32_t>& waiting() const { return waiting_; }
    const std::vector<int32_t>& running() const { return running_; }
    // Requests that wait or run here.
    int64_t load() const { return static_cast<int64_t>(waiting_.size() + running_.size()); }

   private:
    struct Budget {
        int64_t tokens, requests, context;
    };
    // Blocks of a prompt that other tiers hold; in the store by codec.
    struct Elsewhere {
        int64_t host = 0, remote = 0;
        std::vector<int64_t> stored{};
    };
    // Tokens of a prompt found by their content: all, those from other engines, and those that need
    // not be computed.
    struct Reused {
        int64_t tokens = 0, fetched = 0, kept = 0;
    };

    Batch schedule(Time now);
    void continuous(Batch& batch);
    void prefill_alone(Batch& batch);
    void transformers(Batch& batch);
    void chosen(Batch& batch);
    void run_all(Batch& batch, int64_t& budget, bool decoding, bool prompts);
    void admit_all(Batch& batch, int64_t& budget);
    bool looks_at_queue();
    bool gathers(const Batch& batch, int64_t budget);
    int64_t promised_blocks() const;
    bool run_one(Batch& batch, int32_t request, int64_t limit, bool may_preempt);
    int64_t admit_one(Batch& batch, int32_t request, int64_t limit, bool forced);
    bool blocks_for_transformers(int32_t request, int64_t tokens);
    void make_room(const std::vector<int32_t>& starved);

    void add(Batch& batch, int32_t request, int64_t tokens);
    int64_t wanted(int32_t request) const;
    bool decodes(int32_t request) const;
    bool free_to_run(int32_t request) const;
    int64_t accepted(int32_t request) const;
    bool adapter_fits(int32_t request) const;
    void started(int32_t request, int64_t hit);

    uint64_t key(int32_t request, int64_t block) const;
    int64_t blocks_of(int64_t tokens) const;
    int64_t needed(int32_t request, int64_t tokens) const;
    void take(int32_t request, int64_t tokens);
    void name(int32_t request, int64_t from, int64_t to);
    void give_back(int32_t request);
    void preempt(int32_t request);
    std::vector<int32_t> prefix(int32_t request) const;
    Elsewhere elsewhere(int32_t request, int64_t from) const;
    ContentStore& store_of(uint64_t id) const;
    Reused known_content(int32_t request, int64_t from) const;
    void keep_content(int32_t request);
    Pages pages(const Options& options, uint64_t salt) const;
    void count_found(int32_t request, int64_t pages_hit);
    void divide();
    int64_t longest();
    void count_kinds(Batch& batch) const;
    void forget_steps(Progress& p);
    void account(Time now);
    void count_gap(Time gap, int64_t tokens);
    Progress& of(int32_t request) { return progress_[static_cast<size_t>(request)]; }
    const Progress& of(int32_t request) const { return progress_[static_cast<size_t>(request)]; }

    int32_t number_;
    Role role_;
    Options options_;
    const Requests& requests_;
    std::vector<Progress>& progress_;
    Cost& cost_;
    const Hooks& hooks_;
    const std::vector<std::unique_ptr<ContentStore>>& stores_;  // by engine
    Blocks blocks_;
    std::deque<int32_t> waiting_;
    std::vector<int32_t> running_, moving_;
    std::deque<Batch> flights_;
    std::vector<Time> stage_free_;
    bool preempted_now_ = false, may_start_ = true;
    int64_t gathered_ = 0;     // steps that prompts have waited for others
    int64_t unlooked_ = 0;     // decoding steps since the queue was looked at
    bool had_prompt_ = false;  // whether the last step had a prompt
    // Only the request itself could find the blocks of its output again: unless they may take room
    // in another tier, or a policy sees them, they get their names when it is put aside.
    bool names_outputs_;
    int64_t swapped_ = 0;
    Division division_;
    size_t seen_ = 0;      // requests that `longest_` is of
    int64_t longest_ = 0;  // tokens of the longest request
    Time accounted_ = 0;
    Totals totals_;
};

}  // namespace chakra::serving
