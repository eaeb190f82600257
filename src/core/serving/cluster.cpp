#include "core/serving/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/serving/check.hpp"
#include "core/sim/plans.hpp"

namespace chakra::serving {

namespace {

size_t at(int32_t i) {
    return static_cast<size_t>(i);
}

}  // namespace

Cluster::Cluster(Problem problem)
    : problem_((check(problem), std::move(problem))),
      grown_(problem_.hooks.next ? std::make_shared<Requests>(*problem_.requests) : nullptr),
      requests_(grown_ ? *grown_ : *problem_.requests),
      remote_{Tier(problem_.remote_blocks), problem_.handover.codecs} {
    if (grown_) grown_->grows = true;
    const Requests& requests = requests_;
    progress_.resize(requests.size());
    open_ = requests.size();
    left_ = static_cast<int64_t>(requests.size());
    size_t count = 0;
    for (const Pool& pool : problem_.pools) count += static_cast<size_t>(pool.engines);
    shares_.resize(count);
    for (auto [a, b] : problem_.share_devices) {
        shares_[at(a)].push_back(b);
        shares_[at(b)].push_back(a);
    }
    costs_.reserve(count);
    engines_.reserve(count);
    for (Pool& pool : problem_.pools) {
        shared_.emplace_back(pool.shared);
        pool.options.content_first = static_cast<int64_t>(engines_.size());
        int64_t remembered = problem_.hooks.engine.divide ? remembered_tokens(pool.options) : 0;
        for (int32_t i = 0; i < pool.engines; ++i) {
            auto number = static_cast<int32_t>(engines_.size());
            if (i % pool.ranks == 0)
                groups_.push_back({number, number + pool.ranks, shared_.size() - 1});
            group_of_.push_back(static_cast<int32_t>(groups_.size()) - 1);
            costs_.emplace_back(pool.terms);
            stores_.push_back(
                std::make_unique<ContentStore>(pool.options.content_tokens, remembered));
            engines_.emplace_back(number, pool.role, pool.options, requests, progress_,
                                  costs_.back(), problem_.hooks.engine, remote_,
                                  static_cast<uint64_t>(pool.model + 1), stores_);
        }
    }
    announced_.assign(count, NEVER);
    out_free_.assign(count, 0);
    in_free_.assign(count, 0);
    down_.assign(count, 0);
    coming_.assign(count, 0);
    touched_flag_.assign(count, 0);
    turn_.assign(3, 0);
    target_.assign(requests.size(), -1);
    if (problem_.level.may_miss >= 0) missed_.assign(requests.size(), 0);
    paused_.assign(groups_.size(), 0);
    held_back_.assign(groups_.size(), 0);
    opening_.assign(count, 0);
    scaled_.assign(count, Scaled::on);
    switched_.assign(count, 0);
    on_since_.assign(count, 0);
    for (size_t e = 0; e < count; ++e) {  // of engines on the same devices the first is on
        for (int32_t other : shares_[e]) {
            if (at(other) < e && scaled_[at(other)] == Scaled::on) scaled_[e] = Scaled::off;
        }
        if (scaled_[e] == Scaled::off) on_since_[e] = NEVER;
    }
    on_for_.assign(count, 0);
    if (std::any_of(requests.after.begin(), requests.after.end(),
                    [](int64_t a) { return a >= 0; })) {
        for (size_t r = 0; r < requests.size(); ++r) follow(static_cast<int32_t>(r));
    }
    mean_prompt_ = std::accumulate(requests.prompt.begin(), requests.prompt.end(), 0.0) /
                   std::max<double>(1, static_cast<double>(requests.size()));
}

void Cluster::push(Time at, Kind kind, int32_t what, int32_t epoch) {
    events_.push({at, kind, order_++, what, epoch});
}

void Cluster::run() {
    for (size_t i = 0; i < problem_.faults.size(); ++i) {
        push(problem_.faults[i].at, Kind::fault, static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < problem_.rank_faults.size(); ++i) {
        push(problem_.rank_faults[i].at, Kind::rank_fault, static_cast<int32_t>(i));
    }
    if (problem_.hooks.scale) push(0, Kind::scale, 0);
    if (problem_.hooks.next) push(0, Kind::source, 0);
    for (int64_t i = 0; i < problem_.concurrency && arrive_open(); ++i) {
    }
    if (problem_.concurrency == 0) arrive_open();
    while (!events_.empty() && (left_ > 0 || source_waits()) && !given_up_ && !stuck()) {
        now_ = events_.top().at;
        if (now_ < 0 || now_ > sim::kHorizon)  // a sum beyond 64 bits is negative
            throw std::overflow_error(
                "serving goes on beyond 50 days, where the clock ends: serve fewer requests, or "
                "check how long steps take");
        while (!events_.empty() && events_.top().at == now_) {
            Event event = events_.top();
            events_.pop();
            happen(event);
        }
        if (!ended_now_.empty() && problem_.hooks.next) ask_source();
        if (changed_ || !touched_.empty()) ask_held();
        form_touched();
        ++happened_;
        if (problem_.recording.audit_every > 0 && happened_ % problem_.recording.audit_every == 0) {
            for (const Engine& engine : engines_) engine.audit();
        }
    }
    for (const Engine& engine : engines_) engine.audit();
}

void Cluster::happen(const Event& event) {
    switch (event.kind) {
        case Kind::arrival:
            if (event.epoch < 0) arrive_open();
            arrive(event.what);
            break;
        case Kind::moved: moved(event.what, event.epoch); break;
        case Kind::fault: fail(event.what); break;
        case Kind::rank_fault: fail_rank(problem_.rank_faults[at(event.what)]); break;
        case Kind::rank_back: return_rank(problem_.rank_faults[at(event.what)]); break;
        case Kind::resumed: touch(groups_[at(event.what)].first); break;
        case Kind::repaired:
            down_[at(event.what)] = 0;
            touch(event.what);
            break;
        case Kind::scale:
            scale();
            push(now_ + problem_.hooks.interval, Kind::scale, 0);
            break;
        case Kind::ready:
            if (event.epoch == switched_[at(event.what)]) start(event.what);
            break;
        case Kind::source:
            ask_source();
            if (problem_.hooks.source_interval > 0)
                push(now_ + problem_.hooks.source_interval, Kind::source, 0);
            break;
        case Kind::step: step_ended(event.what);
    }
}

// The next request that waits for no other one; the one after it is announced when it has arrived.
bool Cluster::arrive_open() {
    while (next_ < open_ && requests_.follows(next_)) ++next_;
    if (next_ == open_) return false;
    bool closed = problem_.concurrency > 0;
    Time when = closed ? now_ : requests_.arrival[next_];
    push(std::max(when, now_), Kind::arrival, static_cast<int32_t>(next_++), closed ? 0 : -1);
    return true;
}

void Cluster::arrive(int32_t request) {
    Progress& p = progress_[at(request)];
    if (p.arrived == NEVER) {
        p.arrived = now_;
        note_group(request);
        if (Time wait = problem_.pools[0].options.frontend; wait > 0) {
            push(now_ + wait, Kind::arrival, request);
            return;
        }
    }
    bool behind = problem_.hooks.in_order && !held_.empty();
    int32_t engine = behind ? HOLD : routed(request, Role::whole, Role::prefill);
    if (engine < 0) {
        held_.push_back(request);
        return;
    }
    engines_[at(engine)].arrive(request);
    touch(engine);
}

bool Cluster::may_take(int32_t request, const Engine& e, Role first, Role second) const {
    if (e.role() != first && e.role() != second) return false;
    if (down_[at(e.number())] || scaled_[at(e.number())] != Scaled::on) return false;
    int64_t model = Requests::or_none(requests_.model, at(request));
    return model < 0 || model == problem_.pools[groups_[at(group_of_[at(e.number())])].pool].model;
}

int32_t Cluster::routed(int32_t request, Role first, Role second) {
    std::vector<int32_t> choice;
    for (const Engine& e : engines_) {
        if (may_take(request, e, first, second)) choice.push_back(e.number());
    }
    if (choice.empty()) return HOLD;
    bool decode = first == Role::decode;
    const auto& hook = decode ? problem_.hooks.place : problem_.hooks.route;
    if (!hook) return by_rule(request, choice);
    int32_t engine = hook(request, choice);
    if (engine == HOLD) return HOLD;
    if (std::find(choice.begin(), choice.end(), engine) == choice.end()) {
        throw std::out_of_range("route or place chose engine " + std::to_string(engine) +
                                " for request " + std::to_string(request) +
                                "; choose one of the engines that are given, or None to hold it");
    }
    return engine;
}

int32_t Cluster::by_rule(int32_t request, const std::vector<int32_t>& choice) {
    if (choice.size() == 1) return choice[0];
    bool decode = engines_[at(choice[0])].role() == Role::decode;
    if (problem_.router == Router::turn) {
        return choice[static_cast<size_t>(turn_[decode]++) % choice.size()];
    }
    auto load = [&](int32_t e) { return engines_[at(e)].load(); };
    if (problem_.router == Router::least || decode) {
        return *std::min_element(choice.begin(), choice.end(),
                                 [&](int32_t a, int32_t b) { return load(a) < load(b); });
    }
    // Prompt tokens to compute before the first token: the others that wait, then this one's own.
    double best = std::numeric_limits<double>::max();
    int32_t pick = choice[0];
    for (int32_t e : choice) {
        const Engine& engine = engines_[at(e)];
        double queue = static_cast<double>(engine.waiting().size()) * mean_prompt_;
        double without = queue + 1e-3 * static_cast<double>(load(e)) +
                         static_cast<double>(requests_.prompt[at(request)]);
        // Only an engine with more than this cached is better than the best so far.
        if (!engine.may_match(request, without - best)) continue;
        double score = without - static_cast<double>(engine.matched(request));
        if (score < best) {
            best = score;
            pick = e;
        }
    }
    return pick;
}

void Cluster::step_ended(int32_t engine) {
    if (announced_[at(engine)] != now_ || engines_[at(engine)].next() != now_) return;
    announced_[at(engine)] = NEVER;
    Outcome outcome = engines_[at(engine)].finish(now_);
    record(outcome.batch, engines_[at(engine)]);
    if (!missed_.empty()) {
        for (int32_t r : outcome.gave) judge(r);
    }
    for (int32_t r : outcome.finished) ended(r);
    for (int32_t r : outcome.handed_over) hand_over(r);
    if (problem_.hooks.finish) let_finish(engine, outcome);
    if (problem_.hooks.migrate) let_migrate(engine);
    if (scaled_[at(engine)] == Scaled::off) switch_off(engine);
    if (scaled_[at(engine)] == Scaled::closing && !engines_[at(engine)].flying()) vacated(engine);
    touch(engine);
}

// Whether a request that just got tokens has missed the level; too many end the run.
void Cluster::judge(int32_t request) {
    const Level& level = problem_.level;
    const Progress& p = progress_[at(request)];
    if (missed_[at(request)]) return;
    bool late = level.ttft >= 0 && p.first - p.arrived > level.ttft;
    if (p.finished != NEVER) {
        int64_t gaps = requests_.output[at(request)] - 1;
        late |= level.e2e >= 0 && p.finished - p.arrived > level.e2e;
        late |= level.tpot >= 0 && p.finished - p.first > level.tpot * gaps;
    }
    if (!late) return;
    missed_[at(request)] = 1;
    given_up_ = ++misses_ > level.may_miss;
}

void Cluster::ended(int32_t request) {
    --left_;
    if (problem_.hooks.next) ended_now_.push_back(request);
    if (problem_.concurrency > 0) arrive_open();
    if (followers_.empty()) return;
    for (int32_t f : followers_[at(request)]) {
        if (--parents_left_[at(f)] == 0) push(now_ + requests_.arrival[at(f)], Kind::arrival, f);
    }
}

void Cluster::hand_over(int32_t request) {
    int32_t target = routed(request, Role::decode, Role::decode);
    if (target < 0) {
        unplaced_.push_back({request, progress_[at(request)].epoch});
        return;
    }
    move(request, target);
}

// A request's cache goes to another engine, and the request with it.
void Cluster::move(int32_t request, int32_t target) {
    Progress& p = progress_[at(request)];
    Time& leaves = out_free_[at(p.engine)];
    Time& enters = in_free_[at(target)];
    Time start = std::max({now_, leaves, enters});
    const Handover& how = problem_.handover;
    int32_t codec = problem_.hooks.codec ? problem_.hooks.codec(request, p.engine, target) : 0;
    if (codec < 0 || at(codec) >= how.codecs.size())
        throw std::out_of_range("codec chose one that is not there");
    const Way& link = way(p.engine, target);
    Time end = how.end(start, p.computed, how.codecs[at(codec)], link);
    leaves = enters = end;
    end += link.latency;
    target_[at(request)] = target;
    p.coming = p.computed;
    coming_[at(target)] += p.coming;
    moves_.push_back({request, p.engine, target, codec, start, end});
    push(end, Kind::moved, request, p.epoch);
}

void Cluster::moved(int32_t request, int32_t epoch) {
    Progress& p = progress_[at(request)];
    int32_t target = target_[at(request)];
    coming_[at(target)] -= p.coming;
    p.coming = 0;
    if (p.epoch != epoch) return;  // its engine failed on the way
    engines_[at(p.engine)].release(request);
    touch(p.engine);
    if (down_[at(target)]) {
        p.computed = p.scheduled = 0;
        p.where = Where::away;
        push(now_, Kind::arrival, request);
        return;
    }
    p.prefilled = true;
    engines_[at(target)].arrive(request);
    touch(target);
}

void Cluster::fail(int32_t fault) {
    const Fault& f = problem_.faults[at(fault)];
    ++failures_;
    const Group& group = groups_[at(group_of_[at(f.engine)])];
    for (int32_t e = group.first; e < group.last; ++e) {  // ranks that step together fail together
        down_[at(e)] = 1;
        announced_[at(e)] = NEVER;
        for (int32_t r : engines_[at(e)].fail(now_)) push(now_, Kind::arrival, r);
        push(now_ + f.duration, Kind::repaired, e);
    }
}

void Cluster::record(const Batch& batch, const Engine& engine) {
    const Recording& want = problem_.recording;
    bool inside = batch.start >= want.from && batch.start < want.to;
    if (!want.steps && !inside) return;
    const Composition& c = batch.sums;
    steps_.push_back({batch.start, batch.end, engine.number(), c.tokens, c.prompt_tokens,
                      static_cast<int64_t>(batch.pieces.size()), c.context, engine.blocks().held(),
                      static_cast<int64_t>(engine.waiting().size())});
    if (!inside) return;
    auto step = static_cast<int64_t>(steps_.size()) - 1;
    for (const Piece& p : batch.pieces) {
        pieces_.push_back({step, p.request, p.tokens, p.context, p.gives});
    }
}

void Cluster::touch(int32_t engine) {
    int32_t group = group_of_[at(engine)];
    if (touched_flag_[at(group)]) return;
    touched_flag_[at(group)] = 1;
    touched_.push_back(group);
}

bool Cluster::may_step(const Group& group) const {
    if (alive(group) < 0 || paused_[at(group_of_[at(group.first)])] > now_) return false;
    return scaled_[at(group.first)] != Scaled::closing;
}

// Prompts start on all ranks at once, so that no rank waits for the prompt of another: until every
// rank has one they are held back, for so many steps at most and only where every rank decodes.
void Cluster::balance(const Group& group) {
    int64_t most = problem_.pools[group.pool].options.balance_steps;
    if (most == 0 || group.last - group.first < 2) return;
    int64_t ranks = 0, with_prompt = 0, decoding = 0;
    for (int32_t e = group.first; e < group.last; ++e) {
        if (down_[at(e)]) continue;
        ++ranks;
        with_prompt += !engines_[at(e)].waiting().empty();
        decoding += !engines_[at(e)].running().empty();
    }
    int64_t& held = held_back_[at(group_of_[at(group.first)])];
    bool start = with_prompt == ranks || decoding < ranks || held + 1 >= most;
    if (with_prompt > 0) held = start ? 0 : held + 1;
    for (int32_t e = group.first; e < group.last; ++e) engines_[at(e)].let_start(start);
}

// Every rank forms a step; all take as long as the slowest, and ranks with nothing to do wait.
void Cluster::form(const Group& group) {
    const Pool& pool = problem_.pools[group.pool];
    while (all_may_form(group)) {
        std::vector<Batch> batches;
        int64_t tokens = 0, moved = 0, count = 0, rotated = 0, sent = 0;
        double fetched = 0;
        Composition most;
        Time slowest = 0;
        balance(group);
        for (int32_t e = group.first; e < group.last; ++e) {
            batches.emplace_back();
            if (down_[at(e)]) continue;
            batches.back() = engines_[at(e)].form(now_);
            const Batch& batch = batches.back();
            if (batch.empty()) continue;
            tokens += batch.sums.tokens;
            moved = std::max(moved, batch.moved_blocks);
            fetched = std::max(fetched, store_work(pool.options, batch.stored));
            rotated = std::max(rotated, batch.rotated_tokens);
            sent = std::max(sent, batch.fetched_tokens);
            count = std::max(count, static_cast<int64_t>(batch.pieces.size()));
            most.tokens = std::max(most.tokens, batch.sums.tokens);
            most.prompt_tokens = std::max(most.prompt_tokens, batch.sums.prompt_tokens);
            slowest = std::max(slowest, engines_[at(e)].cost(batch));
        }
        if (tokens == 0) return;
        slowest += together(group, tokens);
        slowest += std::llround(static_cast<double>(moved) * pool.options.ps_per_block + fetched);
        if (rotated > 0 || sent > 0)
            slowest +=
                std::llround(static_cast<double>(rotated) * pool.options.ps_per_rotated_token +
                             static_cast<double>(sent) * pool.options.ps_per_fetched_token);
        for (int32_t e = group.first; e < group.last; ++e) {
            if (down_[at(e)]) continue;
            engines_[at(e)].launch(std::move(batches[at(e - group.first)]), slowest, now_, most,
                                   count);
        }
    }
}

void Cluster::form_touched() {
    std::sort(touched_.begin(), touched_.end());
    for (int32_t g : touched_) {
        touched_flag_[at(g)] = 0;
        const Group& group = groups_[at(g)];
        if (may_step(group)) form(group);
        for (int32_t e = group.first; e < group.last; ++e) {
            Time next = engines_[at(e)].next();
            if (next == NEVER || next == announced_[at(e)]) continue;
            announced_[at(e)] = next;
            push(next, Kind::step, e);
        }
    }
    touched_.clear();
}

}  // namespace chakra::serving
