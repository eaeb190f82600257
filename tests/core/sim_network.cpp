#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "core/sim/fairness.hpp"
#include "harness.hpp"
#include "sim_case.hpp"

using namespace chakra::sim;
using namespace unit;

namespace {

// Starts jobs (time, plan) on a network and gives the time each one ended, -1 for never.
std::vector<Time> ends(Network& network, const std::vector<std::pair<Time, int32_t>>& jobs,
                       Time scale_at = kNever, int32_t link = 0, double factor = 1) {
    std::vector<Time> ended(jobs.size(), -1);
    size_t next = 0;
    for (;;) {
        Time now = network.next_time();
        if (next < jobs.size()) now = std::min(now, jobs[next].first);
        if (scale_at != kNever) now = std::min(now, scale_at);
        if (now == kNever) return ended;
        if (now == scale_at) {
            network.scale_link(link, factor, now);
            scale_at = kNever;
        }
        for (bool more = true; more;) {
            std::vector<int32_t> finished;
            network.step(now, finished);
            for (int32_t job : finished) ended[job] = now;
            more = next < jobs.size() && jobs[next].first == now;
            if (more) network.start(static_cast<int32_t>(next), jobs[next].second, {}, now), ++next;
        }
        network.settle(now);
    }
}

template <class Kind>
std::vector<Time> ends(const Fabric& fabric, const std::vector<std::pair<Time, int32_t>>& jobs,
                       Time scale_at = kNever, int32_t link = 0, double factor = 1) {
    Kind network(fabric.topology, fabric.plans);
    return ends(network, jobs, scale_at, link, factor);
}

using Ranks = std::vector<Rank>;

// The rates of flows over links that all start together; without ranks all are alike.
std::vector<double> fair(const std::vector<double>& capacity,
                         const std::vector<std::vector<int32_t>>& flows, const Ranks& ranks = {}) {
    Fabric f(capacity, flows, {});
    Fairness fairness(f.topology);
    for (size_t i = 0; i < flows.size(); ++i)
        fairness.add(static_cast<int32_t>(i), 0, ranks.empty() ? Rank{} : ranks[i]);
    fairness.settle();
    std::vector<double> rates;
    for (size_t i = 0; i < flows.size(); ++i) rates.push_back(fairness.rate(static_cast<int>(i)));
    return rates;
}

// Flows that come and go on random links: every time their rates must be those of a fresh start.
class Churn {
   public:
    Churn(unsigned seed, int classes, int weights)
        : random_(seed), classes_(classes), weights_(weights), fabric_(links(), routes(), {}) {}

    // How far any rate was from that of a fresh start, as a part of it.
    double worst(int changes) {
        Fairness fairness(fabric_.topology);
        double worst = 0;
        for (int i = 0; i < changes; ++i) {
            change(fairness);
            fairness.settle();
            worst = std::max(worst, distance(fairness));
        }
        return worst;
    }

   private:
    struct Live {
        int32_t flow, route;
        Rank rank;
    };

    int32_t below(size_t limit) { return static_cast<int32_t>(random_() % limit); }
    std::vector<double> links() {
        std::vector<double> bandwidth(20);
        for (double& b : bandwidth) b = below(2) ? 12.5 : 1 + below(5);
        return bandwidth;
    }
    std::vector<std::vector<int32_t>> routes() {
        std::vector<std::vector<int32_t>> all(40);
        for (auto& route : all) {
            route = {below(5), 5 + below(5), 10 + below(5), 15 + below(5)};
            route.resize(1 + static_cast<size_t>(below(4)));
        }
        return all;
    }
    void change(Fairness& fairness) {
        if (below(25) == 0) {
            int32_t link = below(20);
            fabric_.topology.bandwidth[static_cast<size_t>(link)] = 5 * below(3);
            fairness.set_bandwidth(link, fabric_.topology.bandwidth[static_cast<size_t>(link)]);
        }
        for (int32_t n = 1 + below(3); n > 0; --n) {
            auto priority = static_cast<uint8_t>(below(static_cast<size_t>(classes_)));
            auto weight = static_cast<uint16_t>(1 + below(static_cast<size_t>(weights_)));
            int32_t route = below(40);
            live_.push_back(
                {fairness.add(route, 0, {priority, weight}), route, {priority, weight}});
        }
        fairness.settle();
        for (int32_t n = below(4); n > 0 && live_.size() > 20; --n) {
            auto which = live_.begin() + below(live_.size());
            fairness.remove(which->flow);
            live_.erase(which);
        }
    }
    double distance(const Fairness& fairness) {
        Fairness fresh(fabric_.topology);
        std::vector<int32_t> flows;
        for (const Live& l : live_) flows.push_back(fresh.add(l.route, 0, l.rank));
        fresh.settle();
        double most = 0;
        for (size_t i = 0; i < live_.size(); ++i) {
            double expected = fresh.rate(flows[i]);
            double difference = std::abs(fairness.rate(live_[i].flow) - expected);
            most = std::max(most, difference > 0 ? difference / std::max(expected, 1e-9) : 0.0);
        }
        return most;
    }

    std::mt19937 random_;
    int classes_, weights_;
    Fabric fabric_;
    std::vector<Live> live_;
};

}  // namespace

STORY("flows on one link share it equally") {
    EXPECT(fair({12}, {{0}, {0}, {0}}), {4, 4, 4});
    EXPECT(fair({12}, {}), {});
}

STORY("what a flow cannot use elsewhere goes to the others") {
    // The second flow is held to 1 by link 1; the first and third share what that leaves of link 0.
    EXPECT(fair({9, 1}, {{0}, {0, 1}, {0}}), {4, 1, 4});
    EXPECT(fair({10, 10, 2}, {{0, 1}, {0}, {1, 2}}), {5, 5, 2});
}

STORY("fair rates depend on no order of flows or links") {
    std::mt19937 random(3);
    for (int round = 0; round < 20; ++round) {
        std::vector<double> capacity;
        for (int l = 0; l < 6; ++l) capacity.push_back(1 + static_cast<double>(random() % 9));
        std::vector<std::vector<int32_t>> flows(8);
        for (auto& links : flows)
            for (int32_t l = 0; l < 6; ++l)
                if (random() % 3 == 0 || (l == 5 && links.empty())) links.push_back(l);
        std::vector<double> forward = fair(capacity, flows);
        std::reverse(flows.begin(), flows.end());
        std::vector<double> backward = fair(capacity, flows);
        std::reverse(backward.begin(), backward.end());
        EXPECT(forward, backward);
    }
}

STORY("a link without bandwidth gives its flows nothing") {
    EXPECT(fair({0, 4}, {{0, 1}, {1}}), {0, 4});
}

STORY("a heavier flow gets as many times the share of a lighter one") {
    EXPECT(fair({12}, {{0}, {0}, {0}}, {{0, 1}, {0, 2}, {0, 3}}), {2, 4, 6});
    // Link 1 holds the second flow to 1; what it leaves is shared 1 : 3.
    EXPECT(fair({9, 1}, {{0}, {0, 1}, {0}}, {{0, 1}, {0, 9}, {0, 3}}), {2, 1, 6});
}

STORY("a lower class gets what the classes above it leave") {
    EXPECT(fair({12, 5}, {{0}, {0, 1}, {0}}, {{0}, {1}, {0}}), {3.5, 5, 3.5});
    EXPECT(fair({12}, {{0}, {0}, {0}}, {{2}, {1}, {0}}), {12, 0, 0});
    // A weight counts within its class alone.
    EXPECT(fair({12}, {{0}, {0}}, {{1, 1}, {0, 100}}), {12, 0});
}

STORY("rates are the same whether flows came and went or all of them start now") {
    for (auto [classes, weights] : {std::pair{1, 1}, {1, 7}, {3, 1}, {3, 7}})
        for (unsigned seed = 0; seed < 10; ++seed)
            EXPECT(Churn(seed, classes, weights).worst(100) < 1e-9, true);
}

STORY("a change reaches the flows that it can move, and no others") {
    // Flows 0 and 1 share link 0; flow 1 is held by link 1, so that flow 0 alone gains when 2 goes.
    Fabric f({10, 1, 8}, {{0}, {0, 1}, {0, 2}, {2}}, {});
    Fairness fairness(f.topology);
    for (int32_t route = 0; route < 4; ++route) fairness.add(route, 0);
    fairness.settle();
    EXPECT(fairness.rate(0), 5), EXPECT(fairness.rate(2), 4), EXPECT(fairness.rate(3), 4);
    fairness.remove(3);
    fairness.settle();
    EXPECT(fairness.changed(), {0, 2});
    EXPECT(fairness.rate(0), 4.5), EXPECT(fairness.rate(2), 4.5), EXPECT(fairness.rate(1), 1);
}

STORY("analytical transfers never meet: delay, then bytes over the narrowest link") {
    Fabric f({2, 1}, {{0, 1}, {0}}, {{{{{0, 100, 5}}}}, {{{{1, 100, 5}}}}});
    EXPECT(ends<Analytical>(f, {{0, 0}, {0, 0}, {7, 1}}), {105, 105, 62});
}

STORY("steps follow each other, side by side where they may, and repeat") {
    Fabric f({1, 1}, {{0}, {1}},
             {{{{{0, 10, 1}}, 3}, {{{1, 50}}}, {{{0, 7}, {1, 9}}, 1, {0, 1}}, {{}, 1, {2}}}});
    // Step 0 takes 3 × 11, step 1 takes 50 beside it; step 2 follows both; step 3 is empty.
    EXPECT(ends<Analytical>(f, {{0, 0}}), {59});
    EXPECT(ends<Flows>(f, {{0, 0}}), {59});
}

STORY("bytes that nothing carries never arrive") {
    Fabric f({0}, {{0}}, {{{{{0, 10}}}}, {{{{0, 0, 4}}}}});
    EXPECT(ends<Analytical>(f, {{0, 0}, {0, 1}}), {-1, 4});
    EXPECT(ends<Flows>(f, {{0, 0}, {0, 1}}), {-1, 4});
}

STORY("flows that meet share their link from then on") {
    Fabric f({1}, {{0}}, {{{{{0, 100}}}}});
    EXPECT(ends<Flows>(f, {{0, 0}}), {100});
    EXPECT(ends<Flows>(f, {{0, 0}, {0, 0}}), {200, 200});
    // The first has 60 bytes left when the second comes; it ends at 40 + 2 × 60.
    EXPECT(ends<Flows>(f, {{0, 0}, {40, 0}}), {160, 200});
}

STORY("a link scaled on the way changes what is left of a flow, and what comes later") {
    Fabric f({1}, {{0}}, {{{{{0, 100}}}}});
    EXPECT(ends<Flows>(f, {{0, 0}, {300, 0}}, 50, 0, 0.5), {150, 500});
    EXPECT(ends<Analytical>(f, {{0, 0}, {300, 0}}, 50, 0, 0.5), {100, 500});
    EXPECT(ends<Flows>(f, {{0, 0}}, 50, 0, 0), {-1});
}

STORY("what a failed link stopped goes on when the link recovers") {
    Fabric f({1}, {{0}}, {{{{{0, 100}}}}});
    for (bool flows : {true, false}) {
        std::unique_ptr<Network> network;
        if (flows)
            network = std::make_unique<Flows>(f.topology, f.plans);
        else
            network = std::make_unique<Analytical>(f.topology, f.plans);
        std::vector<int32_t> finished;
        network->scale_link(0, 0, 0);
        network->start(0, 0, {}, 5);
        network->step(5, finished), network->settle(5);
        EXPECT(network->next_time(), kNever);
        network->scale_link(0, 0.5, 40);
        network->step(40, finished), network->settle(40);
        EXPECT(network->next_time(), 240);
    }
}

STORY("what is skipped over ends as if every round had been simulated") {
    // Plan 0 repeats a step and is then known whole; plan 1 crosses its link at any moment.
    std::vector<Step> often{{{{0, 30, 2}, {1, 10, 2}}, 20}};
    std::vector<Step> written_out;
    for (int32_t i = 0; i < 20; ++i) written_out.push_back({{{0, 30, 2}, {1, 10, 2}}, 1, {}});
    for (int32_t i = 1; i < 20; ++i) written_out[static_cast<size_t>(i)].after = {i - 1};
    std::vector<Step> crossing{{{{0, 45}}}};
    Fabric skipping({1, 1}, {{0}, {1}}, {often, crossing});
    Fabric plain({1, 1}, {{0}, {1}}, {written_out, crossing});
    for (Time at : {1, 31, 32, 33, 100, 320, 639, 640, 641}) {
        std::vector<std::pair<Time, int32_t>> jobs{{0, 0}, {at, 1}, {2000, 0}, {2000 + at, 1}};
        EXPECT(ends<Flows>(skipping, jobs), ends<Flows>(plain, jobs));
    }
}

STORY("an undisturbed repetition takes as long as the analytical network says") {
    Fabric f({3, 5}, {{0, 1}}, {{{{{0, 1000, 7}}, 1000}}});
    EXPECT(ends<Flows>(f, {{0, 0}, {500000, 0}}), ends<Analytical>(f, {{0, 0}, {500000, 0}}));
}
