// The parts of Flows that skip what repeats and put it back when somebody comes to its links.
#include <algorithm>

#include "core/sim/flows.hpp"

namespace chakra::sim {

namespace {
int32_t owner_of_job(int32_t job) {
    return -2 - job;
}
}  // namespace

template <class Do>
void Flows::for_step_links(int64_t step, Do&& act) const {
    for (int64_t t = plans_.step_transfers[step]; t < plans_.step_transfers[step + 1]; ++t)
        for (int32_t link : topology_.route(plans_.route[t])) act(link);
}

bool Flows::skip_rounds(int32_t a, Time now) {
    Active& active = active_[a];
    bool alone = true;
    for_step_links(active.step, [&](int32_t link) {
        alone &= fairness_.on(link).empty() && owner_[link] == kNobody;
    });
    if (!alone) return false;
    for_step_links(active.step, [&](int32_t link) { owner_[link] = a; });
    active.skips = true;
    active.skipping = active.rounds;
    active.started = now;
    Time end = now + repeated(active.round_time, active.rounds);
    events_.push({end, kRoundsEnd, a, active.version, 0});
    return true;
}

void Flows::end_skipped_rounds(int32_t a, Time now) {
    Active& active = active_[a];
    if (active.skips)
        for_step_links(active.step, [&](int32_t link) {
            if (owner_[link] == a) owner_[link] = kNobody;
        });
    active.skips = false;
    if (history_) note_step(active.step, active.skipping, active.started, now);
    active.rounds = 0;
    end_step(a, now);
}

const std::vector<int32_t>& Flows::plan_links(int32_t plan) {
    std::vector<int32_t>& links = links_of_plan_[plan];
    if (!links.empty()) return links;
    for (int64_t s = plans_.plan_steps[plan]; s < plans_.plan_steps[plan + 1]; ++s)
        for_step_links(s, [&](int32_t link) { links.push_back(link); });
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    return links;
}

bool Flows::skip_job(int32_t job, Time now) {
    Job& j = jobs_[job];
    // Weights may change the last bit of a rate, so that only what has none is remembered.
    bool known = known_[j.plan] >= 0 && known_epoch_[j.plan] == epoch_;
    if (!known || j.rank.weight != 1) return false;
    const std::vector<int32_t>& links = plan_links(j.plan);
    for (int32_t link : links)
        if (!fairness_.on(link).empty() || owner_[link] != kNobody) return false;
    for (int32_t link : links) owner_[link] = owner_of_job(job);
    j.skips = true;
    j.ends = now + known_[j.plan];
    events_.push({j.ends, kJobEnd, job, ++j.version, 0});
    return true;
}

// Ends all skipping over the link. A plan that was put back to its start may skip rounds on the way
// to now, so once is not always enough.
void Flows::claim(int32_t link, Time now) {
    while (owner_[link] != kNobody) materialize(owner_[link], now);
}

// Puts the owner of a link back to where it is now, simulating what it has skipped of this round.
void Flows::materialize(int32_t owner, Time now) {
    if (owner >= 0)
        materialize_rounds(owner, now);
    else
        materialize_job(-2 - owner, now);
}

void Flows::materialize_rounds(int32_t a, Time now) {
    Active& active = active_[a];
    for_step_links(active.step, [&](int32_t link) { owner_[link] = kNobody; });
    active.skips = false;
    Time passed = now - active.started;
    if (passed == repeated(active.round_time, active.skipping))
        return;  // its end is due now and is still to be handled
    int64_t done = active.round_time > 0 ? passed / active.round_time : 0;
    Time until = active.started + done * active.round_time;
    if (history_ && done > 0) note_step(active.step, done, active.started, until);
    ++active.version;
    active.rounds -= done;
    begin_round(a, until);
    catch_up(now);
}

void Flows::materialize_job(int32_t job, Time now) {
    Job& j = jobs_[job];
    for (int32_t link : plan_links(j.plan)) owner_[link] = kNobody;
    j.skips = false;
    if (now == j.ends) return;  // its end is due now and is still to be handled
    ++j.version;
    run_steps(job, j.started);
    catch_up(now);
}

// Runs what lies before now: only events of what was just put back, on links that only it uses.
void Flows::catch_up(Time now) {
    Fairness::Changes kept = fairness_.set_aside();
    for (Time then; (then = next_time()) < now;) {
        handle_until(then);
        settle(then);
    }
    fairness_.put_back(std::move(kept));
}

}  // namespace chakra::sim
