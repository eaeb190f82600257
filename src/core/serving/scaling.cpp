// Engines that are switched on and off while the run goes on.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/serving/cluster.hpp"

namespace chakra::serving {

namespace {

size_t at(int32_t i) {
    return static_cast<size_t>(i);
}

}  // namespace

void Cluster::scale() {
    std::vector<char> wanted(engines_.size(), 0);
    for (int32_t e : problem_.hooks.scale(now_)) {
        if (e < 0 || at(e) >= engines_.size())
            throw std::out_of_range("scale chose engine " + std::to_string(e) +
                                    "; engines are 0 to " + std::to_string(engines_.size() - 1));
        wanted[at(e)] = 1;
    }
    if (std::find(wanted.begin(), wanted.end(), 1) == wanted.end())
        throw std::out_of_range("scale left no engine; keep one at least");
    for (int32_t e = 0; at(e) < engines_.size(); ++e) {
        if (wanted[at(e)] && shares_with_wanted(e, wanted))
            throw std::out_of_range("scale chose two engines that share devices");
    }
    for (int32_t e = 0; at(e) < engines_.size(); ++e) {
        bool gives = shares_with_wanted(e, wanted);
        wanted[at(e)] ? want(e) : let_go(e, gives);
    }
    start_again(wanted);
    open_where_free();
}

// Whether an engine has devices that another one had.
bool Cluster::had_devices(int32_t engine, int32_t before) const {
    const std::vector<int32_t>& others = shares_[at(engine)];
    return engine == before || std::find(others.begin(), others.end(), before) != others.end();
}

// Requests on whose devices no engine opens lose their caches.
void Cluster::start_again(const std::vector<char>& wanted) {
    std::erase_if(carried_, [&](Carried& one) {
        if (one.heir >= 0 && !wanted[at(one.heir)]) one.heir = -1;
        if (wanted[at(one.from)] || shares_with_wanted(one.from, wanted)) return false;
        progress_[at(one.request)].computed = progress_[at(one.request)].scheduled = 0;
        push(now_, Kind::arrival, one.request);
        return true;
    });
}

void Cluster::want(int32_t engine) {
    Scaled& now = scaled_[at(engine)];
    if (now == Scaled::off) return switch_on(engine);
    changed_ |= now == Scaled::closing;
    if (now == Scaled::closing) now = Scaled::on;  // it had not left yet
}

// An engine that is not wanted ends what it has, unless it `gives` its devices to others.
void Cluster::let_go(int32_t engine, bool gives) {
    Scaled& now = scaled_[at(engine)];
    if (now == Scaled::closing || (now == Scaled::off && !gives)) return;
    if (now != Scaled::off) ++switched_[at(engine)];
    now = Scaled::off;
    opening_[at(engine)] = 0;
    bool leaves = gives && (engines_[at(engine)].load() > 0 || engines_[at(engine)].flying());
    leaves ? close(engine) : switch_off(engine);
}

bool Cluster::shares_with_wanted(int32_t engine, const std::vector<char>& wanted) const {
    return std::any_of(shares_[at(engine)].begin(), shares_[at(engine)].end(),
                       [&](int32_t other) { return wanted[at(other)] != 0; });
}

// Its devices are for others: it ends the step it is in, and those who are there go elsewhere.
void Cluster::close(int32_t engine) {
    scaled_[at(engine)] = Scaled::closing;
    if (!engines_[at(engine)].flying()) vacated(engine);
}

void Cluster::vacated(int32_t engine) {
    auto [queue, carried] = engines_[at(engine)].vacate(now_);
    for (int32_t r : queue) push(now_, Kind::arrival, r);
    for (int32_t r : carried) carried_.push_back({r, engine, -1});
    scaled_[at(engine)] = Scaled::off;
    switch_off(engine);
    open_where_free();
}

// Requests whose engine has left go to those that come to its devices, in turn.
void Cluster::find_heirs() {
    std::vector<size_t> turn(engines_.size(), 0);
    for (Carried& one : carried_) {
        if (one.heir >= 0) continue;
        std::vector<int32_t> heirs;
        for (int32_t e = 0; at(e) < engines_.size(); ++e) {
            bool comes = scaled_[at(e)] == Scaled::starting || scaled_[at(e)] == Scaled::on;
            if (comes && had_devices(e, one.from)) heirs.push_back(e);
        }
        if (!heirs.empty()) one.heir = heirs[turn[at(one.from)]++ % heirs.size()];
    }
}

// Engines that wait for devices begin to open when nobody is left on them.
void Cluster::open_where_free() {
    find_heirs();
    for (int32_t e = 0; at(e) < engines_.size(); ++e) {
        if (scaled_[at(e)] != Scaled::starting || opening_[at(e)]) continue;
        auto busy = [&](int32_t other) {
            return scaled_[at(other)] != Scaled::off || engines_[at(other)].load() > 0;
        };
        if (std::any_of(shares_[at(e)].begin(), shares_[at(e)].end(), busy)) continue;
        int64_t tokens = 0;
        for (const Carried& one : carried_) {
            if (one.heir == e) tokens += progress_[at(one.request)].computed;
        }
        opening_[at(e)] = 1;
        Time ready =
            now_ + (problem_.hooks.open ? problem_.hooks.open(e, tokens) : problem_.hooks.start_up);
        openings_.push_back({e, tokens, now_, ready});
        push(ready, Kind::ready, e, switched_[at(e)]);
    }
}

// Requests whose devices it has, where it can go on with them; others start again.
void Cluster::take_over(int32_t engine) {
    std::vector<Carried> others;
    for (const Carried& one : carried_) {
        if (one.heir != engine) {
            others.push_back(one);
            continue;
        }
        int32_t r = one.request;
        Progress& p = progress_[at(r)];
        if (may_take(r, engines_[at(engine)], Role::whole, Role::decode)) {
            p.prefilled = p.computed > 0;
            engines_[at(engine)].arrive(r);
        } else {
            p.computed = p.scheduled = 0;
            push(now_, Kind::arrival, r);
        }
    }
    carried_.swap(others);
    touch(engine);
}

// One that still has requests never stopped; any other has to start.
void Cluster::switch_on(int32_t engine) {
    bool works = engines_[at(engine)].load() > 0;
    if (!works) on_since_[at(engine)] = now_;
    ++switched_[at(engine)];
    scaled_[at(engine)] = Scaled::starting;
    if (works) return start(engine);
    if (!shares_[at(engine)].empty() && now_ > 0) return;  // it opens when its devices are free
    if (problem_.hooks.start_up == 0 || now_ == 0) return start(engine);
    push(now_ + problem_.hooks.start_up, Kind::ready, engine, switched_[at(engine)]);
}

void Cluster::start(int32_t engine) {
    scaled_[at(engine)] = Scaled::on;
    changed_ = true;
    opening_[at(engine)] = 0;
    if (!carried_.empty()) take_over(engine);
}

// Its time counts until what it had has left.
void Cluster::switch_off(int32_t engine) {
    if (engines_[at(engine)].load() > 0 || on_since_[at(engine)] == NEVER) return;
    on_for_[at(engine)] += now_ - on_since_[at(engine)];
    on_since_[at(engine)] = NEVER;
}

Time Cluster::on_for(int32_t engine) const {
    Time since = on_since_.at(at(engine));
    return on_for_[at(engine)] + (since == NEVER ? 0 : now_ - since);
}

}  // namespace chakra::serving
