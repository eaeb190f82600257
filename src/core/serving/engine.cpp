// An engine's life: requests arrive, steps are launched and end, requests leave or are put aside.
#include "core/serving/engine.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace chakra::serving {

Engine::Engine(int32_t number, Role role, const Options& options, const Requests& requests,
               std::vector<Progress>& progress, Cost& cost, const Hooks& hooks, Store& store,
               uint64_t salt, const std::vector<std::unique_ptr<ContentStore>>& stores)
    : number_(number),
      role_(role),
      options_(options),
      requests_(requests),
      progress_(progress),
      cost_(cost),
      hooks_(hooks),
      stores_(stores),
      blocks_(pages(options, salt), store),
      stage_free_(static_cast<size_t>(options.stages)),
      names_outputs_(options.host_blocks > 0 || store.tier.has_room() || hooks.evict ||
                     requests.inherited()) {
    if (hooks.evict) {
        blocks_.on_evict(
            [this](const std::vector<int32_t>& free) { return hooks_.evict(number_, free); });
    }
    if (hooks.store_codec)
        blocks_.on_store([this](int32_t request) { return hooks_.store_codec(number_, request); });
    division_.share = static_cast<double>(options.content_tokens) /
                      static_cast<double>(std::max<int64_t>(1, memory_tokens()));
}

void Engine::arrive(int32_t request) {
    Progress& p = of(request);
    p.where = Where::waiting;
    p.engine = number_;
    auto urgency = [&](int32_t r) { return requests_.priority[static_cast<size_t>(r)]; };
    auto place = waiting_.end();
    while (options_.priorities && place != waiting_.begin() &&
           urgency(*(place - 1)) > urgency(request))
        --place;
    waiting_.insert(place, request);
}

void Engine::account(Time now) {
    totals_.block_time +=
        static_cast<double>(blocks_.held()) * static_cast<double>(now - accounted_);
    accounted_ = now;
}

Batch Engine::form(Time now) {
    account(now);
    if (hooks_.divide && division_.requests >= options_.divide_every) divide();
    Batch batch = schedule(now);
    while (batch.empty() && preempted_now_ && flights_.empty())
        batch = schedule(now);  // room was made
    if (!batch.empty()) {
        batch.moved_blocks += std::exchange(division_.blocks, 0);
        batch.fetched_tokens += std::exchange(division_.tokens, 0);
    }
    totals_.peak_blocks = std::max(totals_.peak_blocks, blocks_.held());
    return batch;
}

void Engine::launch(Batch&& batch, Time whole, Time now, const Composition& most, Time count) {
    batch.formed = now;
    Time ready = now + options_.host + count * options_.host_per_request +
                 most.tokens * options_.host_per_token;
    whole =
        std::max(options_.serial + count * options_.serial_per_request + whole, options_.launch);
    if (most.prompt_tokens > 0) whole = std::max(whole, options_.prompt_launch);
    if (totals_.steps == 0) whole += options_.warmup;
    Time each = whole / options_.stages;
    Time at = batch.start = std::max(ready, stage_free_.front());
    for (Time& free : stage_free_) {
        at = std::max(at, free) + each;
        free = at;
    }
    batch.end = at;
    totals_.busy += each * options_.stages;
    ++totals_.steps;
    totals_.tokens += batch.sums.tokens;
    totals_.pieces += static_cast<int64_t>(batch.pieces.size());
    flights_.push_back(std::move(batch));
}

Outcome Engine::finish(Time now) {
    account(now);
    Outcome out{std::move(flights_.front()), {}, {}, {}};
    flights_.pop_front();
    for (const Piece& piece : out.batch.pieces) {
        Progress& p = of(piece.request);
        if (p.epoch != piece.epoch) continue;  // put aside meanwhile: its result is thrown away
        --p.flying;
        p.computed += piece.decodes ? piece.gives : piece.tokens;
        if (piece.gives == 0) continue;
        if (p.first == NEVER) {
            p.first = now;
        } else {
            count_gap((now - p.last) / piece.gives, piece.gives);
        }
        p.generated += piece.gives;
        p.last = now;
        out.gave.push_back(piece.request);
        if (p.generated >= requests_.output[static_cast<size_t>(piece.request)]) {
            p.finished = now;
            p.where = Where::done;
            give_back(piece.request);
            out.finished.push_back(piece.request);
        } else if (role_ == Role::prefill) {
            p.where = Where::moving;
            out.handed_over.push_back(piece.request);
            moving_.push_back(piece.request);
        }
    }
    if (!out.finished.empty() || !out.handed_over.empty()) {
        std::erase_if(running_, [&](int32_t r) { return of(r).where != Where::running; });
    }
    return out;
}

void Engine::release(int32_t request) {
    std::erase(moving_, request);
    give_back(request);
}

// What steps in flight compute for it is thrown away.
void Engine::forget_steps(Progress& p) {
    ++p.epoch;
    p.flying = 0;
    p.scheduled = p.computed;
    p.expected = p.generated;
}

void Engine::stop(int32_t request, Time now) {
    account(now);
    Progress& p = of(request);
    forget_steps(p);
    give_back(request);
    p.finished = now;
    p.where = Where::done;
    std::erase(running_, request);
}

void Engine::depart(int32_t request) {
    Progress& p = of(request);
    forget_steps(p);
    p.where = Where::moving;
    std::erase(running_, request);
    moving_.push_back(request);
}

void Engine::pause(Time now, Time until) {
    account(now);
    for (const Batch& batch : flights_) {
        for (const Piece& piece : batch.pieces) {
            Progress& p = of(piece.request);
            if (p.epoch == piece.epoch) forget_steps(p);
        }
    }
    flights_.clear();
    std::fill(stage_free_.begin(), stage_free_.end(), until);
}

std::pair<std::vector<int32_t>, std::vector<int32_t>> Engine::vacate(Time now) {
    account(now);
    std::vector<int32_t> queue(waiting_.begin(), waiting_.end()), carried(running_);
    for (int32_t r : queue) {
        Progress& p = of(r);
        p.computed = p.scheduled = 0;
        p.swapped = p.prefilled = false;
        p.where = Where::away;
    }
    for (int32_t r : carried) {
        forget_steps(of(r));
        give_back(r);
        of(r).where = Where::away;
    }
    waiting_.clear();
    running_.clear();
    blocks_.forget();
    swapped_ = 0;
    return {queue, carried};
}

Time Engine::estimate(const Thought& thought) {
    Batch batch;
    for (int64_t i = 0; i < thought.decodes; ++i) {
        int64_t context =
            thought.context * (i + 1) / thought.decodes - thought.context * i / thought.decodes;
        batch.add({0, 0, 1, context, 1, true});
    }
    if (thought.prompt_tokens > 0)
        batch.add({0, 0, thought.prompt_tokens, thought.prompt_context, 1, false});
    batch.kinds = {{-1, thought.decodes + thought.prompt_tokens}};
    auto count = static_cast<Time>(batch.pieces.size());
    return options_.serial + count * options_.serial_per_request + cost_.estimate(batch);
}

Tokens Engine::tokens() const {
    Tokens sum;
    auto whole = [this](int32_t r) {
        return requests_.prompt[static_cast<size_t>(r)] + of(r).generated;
    };
    for (int32_t r : running_) {
        // Of a prompt in chunks; the newest token is computed by the step that gives the next one.
        int64_t rest = whole(r) - (of(r).generated > 0) - of(r).scheduled;
        rest = std::max<int64_t>(0, rest);
        sum.held += of(r).scheduled;
        sum.promised += rest;
        sum.prompts_waiting += rest;
    }
    for (int32_t r : moving_) sum.held += of(r).computed;
    for (int32_t r : waiting_) {
        sum.promised += whole(r);
        sum.prompts_waiting += whole(r) - of(r).computed;
    }
    return sum;
}

// The bin is the position of the highest bit and the six bits below it.
void Engine::count_gap(Time gap, int64_t tokens) {
    auto value = static_cast<uint64_t>(std::max<Time>(gap, 64));
    int high = 63 - std::countl_zero(value);
    size_t bin = static_cast<size_t>(high) * 64 + ((value >> (high - 6)) & 63);
    if (totals_.gaps.empty()) totals_.gaps.resize(64 * 64);
    totals_.gaps[bin] += tokens;
    totals_.gap_time += static_cast<double>(gap) * static_cast<double>(tokens);
}

void Engine::give_back(int32_t request) {
    std::vector<int32_t>& held = of(request).blocks;
    for (auto b = held.rbegin(); b != held.rend(); ++b)
        blocks_.drop(*b);  // the end is reused first
    held = {};
}

void Engine::preempt(int32_t request) {
    Progress& p = of(request);
    auto size = static_cast<int64_t>(p.blocks.size());
    bool swaps = swapped_ + size <= options_.swap_blocks && p.computed > 0;
    name(request, 0, p.scheduled);
    give_back(request);
    ++p.epoch;
    ++p.preempted;
    p.flying = 0;
    if (swaps) {
        swapped_ += blocks_of(p.computed);
        p.swapped = true;
        ++totals_.swaps;
    } else {
        p.computed = 0;
    }
    p.prefilled = false;
    p.scheduled = p.computed;
    p.expected = p.generated;
    p.where = Where::waiting;
    std::erase(running_, request);
    waiting_.push_front(request);
    ++totals_.preemptions;
    preempted_now_ = true;
}

std::vector<int32_t> Engine::fail(Time now) {
    account(now);
    std::vector<int32_t> lost(running_);
    lost.insert(lost.end(), waiting_.begin(), waiting_.end());
    lost.insert(lost.end(), moving_.begin(), moving_.end());
    for (int32_t request : lost) {
        Progress& p = of(request);
        give_back(request);
        ++p.epoch;
        p.flying = 0;
        p.computed = p.scheduled = 0;
        p.expected = p.generated;
        p.swapped = p.prefilled = false;
        p.where = Where::away;
    }
    running_.clear();
    waiting_.clear();
    moving_.clear();
    flights_.clear();
    blocks_.forget();
    stores_[static_cast<size_t>(number_)]->forget();
    swapped_ = 0;
    std::fill(stage_free_.begin(), stage_free_.end(), now);
    return lost;
}

void Engine::audit() const {
    std::vector<int64_t> seen(blocks_.used());
    for (const Progress& p : progress_) {
        if (p.engine != number_) continue;
        for (int32_t b : p.blocks) ++seen[static_cast<size_t>(b)];
    }
    int64_t held = 0;
    for (size_t b = 0; b < seen.size(); ++b) {
        held += seen[b] > 0;
        if (seen[b] != blocks_.references(static_cast<int32_t>(b))) {
            throw std::logic_error("block " + std::to_string(b) + " of engine " +
                                   std::to_string(number_) + " is held by " +
                                   std::to_string(seen[b]) + " requests and counts " +
                                   std::to_string(blocks_.references(static_cast<int32_t>(b))));
        }
    }
    if (held != blocks_.held()) throw std::logic_error("free blocks are miscounted");
    for (int32_t r : running_) {
        const Progress& p = of(r);
        if (static_cast<int64_t>(p.blocks.size()) * options_.block_size < p.scheduled) {
            throw std::logic_error("request " + std::to_string(r) + " has tokens without a block");
        }
    }
}

}  // namespace chakra::serving
