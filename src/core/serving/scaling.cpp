// Engines that are switched on and off while the run goes on.
#include <algorithm>
#include <stdexcept>

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
            throw std::out_of_range("scale chose an engine that is not there");
        wanted[at(e)] = 1;
    }
    if (std::find(wanted.begin(), wanted.end(), 1) == wanted.end())
        throw std::out_of_range("scale left no engine");
    for (int32_t e = 0; at(e) < engines_.size(); ++e) {
        bool on = scaled_[at(e)] != Scaled::off;
        if (wanted[at(e)] && !on) switch_on(e);
        if (!wanted[at(e)] && on) {
            scaled_[at(e)] = Scaled::off;
            ++switched_[at(e)];
            switch_off(e);
        }
    }
}

// One that still has requests never stopped; any other has to start.
void Cluster::switch_on(int32_t engine) {
    bool works = engines_[at(engine)].load() > 0;
    if (!works) on_since_[at(engine)] = now_;
    ++switched_[at(engine)];
    scaled_[at(engine)] = Scaled::starting;
    if (works || problem_.hooks.start_up == 0 || now_ == 0) return start(engine);
    push(now_ + problem_.hooks.start_up, Kind::ready, engine, switched_[at(engine)]);
}

void Cluster::start(int32_t engine) {
    scaled_[at(engine)] = Scaled::on;
    changed_ = true;
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
