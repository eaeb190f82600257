// How an engine forms a step: which requests, how many tokens of each, and the blocks they need.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "core/serving/engine.hpp"

namespace chakra::serving {

namespace {

constexpr int64_t ALL = std::numeric_limits<int64_t>::max();

}  // namespace

// --- what a request wants ------------------------------------------------------------------------

int64_t Engine::wanted(int32_t request) const {
    const Progress& p = of(request);
    auto i = static_cast<size_t>(request);
    if (p.expected >= requests_.output[i]) return 0;
    if (role_ == Role::prefill && p.expected > p.generated)
        return 0;  // the rest is decoded elsewhere
    return requests_.prompt[i] + p.expected - p.scheduled;
}

bool Engine::decodes(int32_t request) const {
    return of(request).expected > 0 && wanted(request) == 1;
}

bool Engine::free_to_run(int32_t request) const {
    return options_.stages == 1 || of(request).flying == 0;
}

// Drafts that the model confirms: each with the same probability, up to the first that fails.
int64_t Engine::accepted(int32_t request) const {
    const Progress& p = of(request);
    int64_t left = requests_.output[static_cast<size_t>(request)] - p.expected;
    int64_t most = std::min(options_.drafts, left - 1), count = 0;
    uint64_t state = Requests::mix(options_.seed ^ static_cast<uint64_t>(request),
                                   static_cast<uint64_t>(p.expected));
    while (count < most) {
        state = Requests::mix(state, 1);
        if (static_cast<double>(state >> 11) * 0x1p-53 >= options_.acceptance) break;
        ++count;
    }
    return count;
}

bool Engine::adapter_fits(int32_t request) const {
    int64_t own = requests_.adapter[static_cast<size_t>(request)];
    if (options_.max_adapters == 0 || own < 0) return true;
    std::unordered_set<int64_t> loaded;
    for (int32_t r : running_) {
        int64_t a = requests_.adapter[static_cast<size_t>(r)];
        if (a >= 0) loaded.insert(a);
    }
    return loaded.contains(own) || static_cast<int64_t>(loaded.size()) < options_.max_adapters;
}

// --- blocks --------------------------------------------------------------------------------------

uint64_t Engine::key(int32_t request, int64_t block) const {
    int64_t last = (block + 1) * options_.block_size - 1;
    auto i = requests_.origin(static_cast<size_t>(request), last);
    if (last < requests_.prompt[i]) {
        uint64_t named = requests_.key(i, last);
        if (named != 0 || !requests_.inherited()) return named;
    }
    return Requests::mix(~static_cast<uint64_t>(i), static_cast<uint64_t>(last));
}

int64_t Engine::blocks_of(int64_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
}

int64_t Engine::needed(int32_t request, int64_t tokens) const {
    return std::max<int64_t>(0,
                             blocks_of(tokens) - static_cast<int64_t>(of(request).blocks.size()));
}

void Engine::take(int32_t request, int64_t tokens) {
    std::vector<int32_t>& held = of(request).blocks;
    for (int64_t n = needed(request, tokens); n > 0; --n) held.push_back(blocks_.take());
}

// Blocks that tokens `from` … `to` fill can be found by their content from now on.
void Engine::name(int32_t request, int64_t from, int64_t to) {
    if (!options_.prefix_cache) return;
    const Progress& p = of(request);
    for (int64_t b = from / options_.block_size; b < to / options_.block_size; ++b) {
        blocks_.name(p.blocks[static_cast<size_t>(b)], key(request, b), request);
    }
}

// The blocks that already hold the request's first tokens; at least one token is left to compute.
std::vector<int32_t> Engine::prefix(int32_t request) const {
    std::vector<int32_t> found;
    if (!options_.prefix_cache) return found;
    int64_t known = requests_.prompt[static_cast<size_t>(request)] + of(request).expected;
    int64_t most = (known - 1) / options_.block_size;
    for (int64_t b = 0; b < most; ++b) {
        int32_t block = blocks_.find(key(request, b));
        if (block < 0) break;
        found.push_back(block);
    }
    return found;
}

// What follows block `from` of a request's content in other tiers, the nearer one first.
Engine::Elsewhere Engine::elsewhere(int32_t request, int64_t from) const {
    Elsewhere found;
    if (!options_.prefix_cache) return found;
    int64_t known = requests_.prompt[static_cast<size_t>(request)] + of(request).expected;
    int64_t most = (known - 1) / options_.block_size;
    for (int64_t b = from; b < most; ++b) {
        uint64_t content = key(request, b);
        if (blocks_.on_host(content)) {
            ++found.host;
        } else if (int32_t codec = blocks_.stored(content); codec >= 0) {
            ++found.remote;
            if (found.stored.size() <= static_cast<size_t>(codec))
                found.stored.resize(static_cast<size_t>(codec) + 1);
            ++found.stored[static_cast<size_t>(codec)];
        } else {
            break;
        }
    }
    return found;
}

ContentStore& Engine::store_of(uint64_t id) const {
    if (options_.content_shards <= 1) return *stores_[static_cast<size_t>(number_)];
    return *stores_[static_cast<size_t>(options_.content_first) +
                    id % static_cast<uint64_t>(options_.content_shards)];
}

// Pieces of the prompt behind its first `from` tokens that a store holds.
Engine::Reused Engine::known_content(int32_t request, int64_t from) const {
    Reused found;
    auto i = static_cast<size_t>(request);
    if (options_.content_tokens == 0 || requests_.content_offsets.empty()) return found;
    int64_t place = 0;
    for (auto k = requests_.content_offsets[i]; k < requests_.content_offsets[i + 1]; ++k) {
        int64_t tokens = requests_.content_tokens[static_cast<size_t>(k)];
        uint64_t id = requests_.contents[static_cast<size_t>(k)];
        place += tokens;
        const ContentStore& store = store_of(id);
        tokens = std::min(tokens, place - from);  // what the prefix does not hold already
        if (tokens <= 0 || !store.has(id)) continue;
        found.tokens += tokens;
        if (&store != stores_[static_cast<size_t>(number_)].get()) found.fetched += tokens;
    }
    auto again =
        static_cast<int64_t>(std::ceil(options_.recomputed * static_cast<double>(found.tokens)));
    found.kept = std::min(found.tokens - again, requests_.prompt[i] - 1 - from);
    return found;
}

void Engine::keep_content(int32_t request) {
    auto i = static_cast<size_t>(request);
    if (options_.content_tokens == 0 || requests_.content_offsets.empty()) return;
    for (auto k = requests_.content_offsets[i]; k < requests_.content_offsets[i + 1]; ++k) {
        uint64_t id = requests_.contents[static_cast<size_t>(k)];
        store_of(id).put(id, requests_.content_tokens[static_cast<size_t>(k)]);
    }
}

int64_t Engine::matched(int32_t request) const {
    if (!options_.prefix_cache) return 0;
    int64_t most = (requests_.prompt[static_cast<size_t>(request)] - 1) / options_.block_size,
            b = 0;
    while (b < most && blocks_.find(key(request, b)) >= 0) ++b;
    return b * options_.block_size;
}

bool Engine::may_match(int32_t request, double tokens) const {
    if (tokens < 0) return true;
    if (!options_.prefix_cache) return false;
    int64_t most = (requests_.prompt[static_cast<size_t>(request)] - 1) / options_.block_size;
    auto last = static_cast<int64_t>(tokens / static_cast<double>(options_.block_size));
    return last < most && blocks_.find(key(request, last)) >= 0;
}

// --- pieces --------------------------------------------------------------------------------------

void Engine::add(Batch& batch, int32_t request, int64_t tokens) {
    Progress& p = of(request);
    bool decoding = decodes(request);
    int64_t before = p.scheduled;
    Piece piece{request, p.epoch, tokens, before, 0, decoding};
    if (decoding) {
        piece.gives = static_cast<int32_t>(1 + std::min(accepted(request), tokens - 1));
        p.scheduled += piece.gives;
        totals_.drafted += tokens - 1;
        totals_.accepted += piece.gives - 1;
    } else {
        p.scheduled += tokens;
        piece.gives = wanted(request) == 0 ? 1 : 0;
    }
    if (!decoding && piece.gives > 0) keep_content(request);
    p.expected += piece.gives;
    ++p.flying;
    int64_t prompt = requests_.prompt[static_cast<size_t>(request)];
    name(request, before, names_outputs_ ? p.scheduled : std::min(p.scheduled, prompt));
    batch.add(piece);
}

// A running request's next tokens, at most `limit`; others give way where blocks are short.
bool Engine::run_one(Batch& batch, int32_t request, int64_t limit, bool may_preempt) {
    bool decoding = decodes(request);
    int64_t left = requests_.output[static_cast<size_t>(request)] - of(request).expected;
    int64_t tokens = decoding ? 1 + std::min(options_.drafts, left - 1) : wanted(request);
    if (!decoding && options_.chunk_limit > 0) tokens = std::min(tokens, options_.chunk_limit);
    tokens = std::min(tokens, limit);
    int64_t upto = of(request).scheduled + tokens;
    while (needed(request, upto) > blocks_.free()) {
        if (!may_preempt) return false;
        std::vector<int32_t> others;
        for (int32_t r : running_) {
            bool chosen = std::any_of(batch.pieces.begin(), batch.pieces.end(),
                                      [r](const Piece& p) { return p.request == r; });
            if (!chosen) others.push_back(r);
        }
        int32_t victim = hooks_.preempt ? hooks_.preempt(number_, others) : others.back();
        if (std::find(others.begin(), others.end(), victim) == others.end()) {
            throw std::out_of_range("preempt chose a request that cannot give way");
        }
        preempt(victim);
        if (victim == request) return false;
    }
    take(request, upto);
    add(batch, request, tokens);
    return true;
}

// A waiting request runs from now on; `hit` of its tokens were found in the cache.
void Engine::started(int32_t request, int64_t hit) {
    Progress& p = of(request);
    int64_t prompt = requests_.prompt[static_cast<size_t>(request)];
    if (p.preempted == 0 && p.generated == 0) {
        p.cached = std::min(hit, prompt);
        totals_.asked_tokens += prompt;
        totals_.hit_tokens += p.cached;
    }
    p.swapped = p.prefilled = false;
    p.where = Where::running;
    running_.push_back(request);
}

// A waiting request's first tokens; gives how many, or 0 where it must wait.
int64_t Engine::admit_one(Batch& batch, int32_t request, int64_t limit, bool forced) {
    Progress& p = of(request);
    auto i = static_cast<size_t>(request);
    if (!adapter_fits(request) || (hooks_.admit && !forced && !hooks_.admit(number_, request)))
        return 0;
    bool kept = p.swapped || p.prefilled;  // its cache comes from elsewhere, as it was
    std::vector<int32_t> found;
    Elsewhere away;
    if (!kept) {
        found = prefix(request);
        away = elsewhere(request, static_cast<int64_t>(found.size()));
    }
    auto here = static_cast<int64_t>(found.size()) * options_.block_size;
    int64_t hit = here + (away.host + away.remote) * options_.block_size;
    Reused reused;
    if (!kept && p.generated == 0) reused = known_content(request, hit);
    int64_t have = kept ? p.computed : hit + reused.kept;
    int64_t rest = requests_.prompt[i] + p.expected - have;
    int64_t tokens = std::min(rest, limit);
    if (options_.chunk_limit > 0) tokens = std::min(tokens, options_.chunk_limit);
    if (!options_.chunked && tokens < rest) return 0;
    int64_t idle = std::count_if(found.begin(), found.end(),
                                 [&](int32_t b) { return blocks_.references(b) == 0; });
    int64_t target = have + (options_.whole_prompt ? rest : tokens);
    auto ahead = static_cast<int64_t>(options_.output_reserve *
                                      static_cast<double>(requests_.output[i] - p.expected));
    if (options_.no_evict) ahead = requests_.output[i] - p.expected;
    int64_t room = blocks_.free() - idle - blocks_of(target + ahead) - promised_blocks() +
                   static_cast<int64_t>(found.size());
    auto margin =
        static_cast<int64_t>(options_.safety_margin * static_cast<double>(blocks_.total()));
    if (room < (running_.empty() ? 0 : margin)) {
        bool alone = running_.empty() && flights_.empty() && batch.empty();
        int64_t must = blocks_of(have + tokens) - static_cast<int64_t>(found.size());
        if (!alone || must > blocks_.free() - idle) return 0;
    }
    for (int32_t b : found) blocks_.hold(b);
    p.blocks = std::move(found);
    p.scheduled = p.computed = have;
    if (p.swapped) swapped_ -= blocks_of(have);
    batch.moved_blocks += away.host + (p.swapped ? blocks_of(have) : 0);
    if (batch.stored.size() < away.stored.size()) batch.stored.resize(away.stored.size());
    for (size_t c = 0; c < away.stored.size(); ++c) batch.stored[c] += away.stored[c];
    if (hooks_.divide && !kept && p.generated == 0) count_found(request, here);
    batch.rotated_tokens += reused.tokens;
    batch.fetched_tokens += reused.fetched;
    totals_.content_hits += reused.tokens;
    totals_.fetched_tokens += reused.fetched;
    totals_.host_hits += away.host * options_.block_size;
    totals_.remote_hits += away.remote * options_.block_size;
    started(request, kept ? 0 : hit + reused.tokens);
    take(request, have + tokens);
    if (have > here && !kept) name(request, here, have);
    add(batch, request, tokens);
    return tokens;
}

// --- the ways to form a step ---------------------------------------------------------------------

Batch Engine::schedule(Time now) {
    Batch batch;
    preempted_now_ = false;
    if (hooks_.batch) {
        chosen(batch);
    } else if (options_.discipline == Discipline::transformers) {
        transformers(batch);
    } else if (options_.discipline == Discipline::prefill_alone) {
        prefill_alone(batch);
    } else {
        continuous(batch);
    }
    std::unordered_set<int64_t> adapters;
    had_prompt_ = batch.sums.prompt_tokens > 0;
    if (cost_.by_kinds()) count_kinds(batch);
    for (const Piece& piece : batch.pieces) {
        Progress& p = of(piece.request);
        if (p.scheduled_at == NEVER) p.scheduled_at = now;
        int64_t a = requests_.adapter[static_cast<size_t>(piece.request)];
        if (a >= 0) adapters.insert(a);
    }
    batch.sums.adapters = static_cast<int64_t>(adapters.size());
    return batch;
}

void Engine::count_kinds(Batch& batch) const {
    std::map<int64_t, int64_t> items;
    for (const Piece& piece : batch.pieces)
        items[requests_.adapter[static_cast<size_t>(piece.request)]] += piece.tokens;
    batch.kinds.assign(items.begin(), items.end());
}

void Engine::run_all(Batch& batch, int64_t& budget, bool decoding, bool prompts) {
    for (size_t i = 0; i < running_.size() && budget > 0;) {
        int32_t r = running_[i];
        bool decode = decodes(r);
        if (wanted(r) == 0 || !free_to_run(r) || (decode ? !decoding : !prompts)) {
            ++i;
            continue;
        }
        if (!run_one(batch, r, budget, true)) break;
        budget -= batch.pieces.back().tokens;
        // Requests that gave way stood behind, or a policy chose some before: look again.
        i = i < running_.size() && running_[i] == r
                ? i + 1
                : static_cast<size_t>(std::find(running_.begin(), running_.end(), r) -
                                      running_.begin()) +
                      1;
    }
}

// Blocks that the requests which run will still take, where nobody is put aside.
int64_t Engine::promised_blocks() const {
    int64_t sum = 0;
    if (!options_.no_evict) return sum;
    for (int32_t r : running_) {
        auto i = static_cast<size_t>(r);
        sum += needed(r, requests_.prompt[i] + requests_.output[i]);
    }
    return sum;
}

// New requests are taken from the queue after a step with prompts, when nothing runs, and else
// every so many steps.
bool Engine::looks_at_queue() {
    if (options_.look_steps <= 1) return true;
    bool looks = had_prompt_ || running_.empty() || ++unlooked_ >= options_.look_steps;
    if (looks) unlooked_ = 0;
    return looks;
}

// Whether prompts wait for more of them: beside requests that decode, until there are tokens enough
// for a step or so many steps have passed.
bool Engine::gathers(const Batch& batch, int64_t budget) {
    if (options_.gather_steps == 0 || waiting_.empty() || batch.empty()) return false;
    int64_t tokens = batch.sums.tokens, left = budget;
    for (int32_t r : waiting_) {
        int64_t prompt = requests_.prompt[static_cast<size_t>(r)];
        if (prompt > left) break;
        left -= prompt;
        tokens += prompt;
    }
    auto enough = options_.gather_share * static_cast<double>(options_.token_budget);
    bool waits = gathered_ < options_.gather_steps && static_cast<double>(tokens) < enough;
    gathered_ = waits ? gathered_ + 1 : 0;
    return waits;
}

void Engine::admit_all(Batch& batch, int64_t& budget) {
    if (preempted_now_ || !may_start_ || !looks_at_queue() || gathers(batch, budget)) return;
    while (!waiting_.empty() && budget > 0 &&
           static_cast<int64_t>(running_.size()) < options_.max_requests) {
        int64_t tokens = admit_one(batch, waiting_.front(), budget, false);
        if (tokens == 0) return;
        budget -= tokens;
        waiting_.pop_front();
    }
}

// Running requests first, in order of their start; then new ones while tokens, places and blocks
// last.
void Engine::continuous(Batch& batch) {
    int64_t budget = options_.token_budget;
    if (!options_.prefill_first) {
        run_all(batch, budget, true, true);
        admit_all(batch, budget);
        return;
    }
    run_all(batch, budget, false, true);
    admit_all(batch, budget);
    run_all(batch, budget, true, false);
}

// Prompts have steps of their own, and go first.
void Engine::prefill_alone(Batch& batch) {
    int64_t budget = options_.token_budget;
    run_all(batch, budget, false, true);
    admit_all(batch, budget);
    if (!batch.empty()) return;
    budget = ALL;
    run_all(batch, budget, true, false);
}

// In the order and with the limits that a policy gives.
void Engine::chosen(Batch& batch) {
    std::vector<int32_t> queue(waiting_.begin(), waiting_.end());
    int64_t budget = options_.token_budget;
    for (auto [request, most] : hooks_.batch(number_, running_, queue)) {
        if (request < 0 || static_cast<size_t>(request) >= requests_.size()) {
            throw std::out_of_range("batch chose request " + std::to_string(request) +
                                    ", which is not there; choose from running and waiting");
        }
        if (most <= 0) {
            throw std::out_of_range("batch gives request " + std::to_string(request) + " " +
                                    std::to_string(most) +
                                    " tokens; give 1 or more, or leave it out");
        }
        int64_t limit = std::min(budget, most);
        if (limit <= 0) break;
        const Progress& p = of(request);
        if (p.engine != number_) {
            throw std::out_of_range("batch chose request " + std::to_string(request) +
                                    " of another engine; choose from running and waiting");
        }
        bool again = std::any_of(batch.pieces.begin(), batch.pieces.end(),
                                 [&](const Piece& q) { return q.request == request; });
        if (again) continue;
        if (p.where == Where::running && wanted(request) > 0 && free_to_run(request)) {
            if (run_one(batch, request, limit, true)) budget -= batch.pieces.back().tokens;
        } else if (p.where == Where::waiting &&
                   static_cast<int64_t>(running_.size()) < options_.max_requests) {
            int64_t tokens = admit_one(batch, request, limit, false);
            if (tokens > 0) std::erase(waiting_, request);
            budget -= tokens;
        }
    }
}

}  // namespace chakra::serving
