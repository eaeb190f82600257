// What a cluster does at a policy's word: requests wait in its queue, end early, or change engines.
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

// Requests that are held are asked about again, in the order in which they came.
void Cluster::ask_held() {
    changed_ = false;
    std::deque<int32_t> queue;
    queue.swap(held_);
    for (int32_t r : queue) {
        bool behind = problem_.hooks.in_order && !held_.empty();
        int32_t engine = behind ? HOLD : routed(r, Role::whole, Role::prefill);
        if (engine < 0) {
            held_.push_back(r);
            continue;
        }
        engines_[at(engine)].arrive(r);
        touch(engine);
    }
    std::vector<std::pair<int32_t, int32_t>> prefilled;
    prefilled.swap(unplaced_);
    for (auto [r, epoch] : prefilled) {
        if (progress_[at(r)].epoch == epoch) hand_over(r);  // else its engine failed
    }
}

void Cluster::let_finish(int32_t engine, const Outcome& outcome) {
    std::vector<int32_t> going;
    for (int32_t r : outcome.gave) {
        if (progress_[at(r)].where == Where::running) going.push_back(r);
    }
    if (going.empty()) return;
    for (int32_t r : problem_.hooks.finish(engine, going)) {
        if (std::find(going.begin(), going.end(), r) == going.end() ||
            progress_[at(r)].where != Where::running)
            throw std::out_of_range("finish chose request " + std::to_string(r) +
                                    ", which got no token in this step; choose from those given");
        engines_[at(engine)].stop(r, now_);
        ended(r);
    }
}

void Cluster::let_migrate(int32_t engine) {
    std::vector<int32_t> running = engines_[at(engine)].running();
    if (running.empty()) return;
    for (auto [r, target] : problem_.hooks.migrate(engine, running)) {
        if (std::find(running.begin(), running.end(), r) == running.end() ||
            progress_[at(r)].where != Where::running)
            throw std::out_of_range("migrate chose request " + std::to_string(r) +
                                    ", which does not run on the engine; choose from those given");
        bool there = target >= 0 && at(target) < engines_.size() && target != engine;
        if (!there || !may_take(r, engines_[at(target)], Role::whole, Role::decode))
            throw std::out_of_range("migrate chose engine " + std::to_string(target) +
                                    " for request " + std::to_string(r) +
                                    ", which it cannot take; choose another engine of its model");
        engines_[at(engine)].depart(r);
        move(r, target);
    }
}

Tokens Cluster::tokens(int32_t engine) const {
    Tokens sum = engines_.at(at(engine)).tokens();
    sum.promised += coming_[at(engine)];
    return sum;
}

Time Cluster::estimate(int32_t engine, const Thought& thought) {
    const Group& group = groups_.at(at(group_of_.at(at(engine))));
    Time time = engines_[at(engine)].estimate(thought);
    int64_t ranks = std::count(down_.begin() + group.first, down_.begin() + group.last, 0);
    int64_t tokens = (thought.decodes + thought.prompt_tokens) * ranks;
    if (tokens > 0) time += together(group, tokens);
    return std::max(time, problem_.pools[group.pool].options.launch);
}

}  // namespace chakra::serving
