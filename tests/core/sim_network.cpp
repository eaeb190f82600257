#include <map>
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
            if (more) network.start(static_cast<int32_t>(next), jobs[next].second, now), ++next;
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

std::vector<double> fair(std::vector<double> capacity, std::vector<std::vector<int32_t>> flows) {
    Sharing sharing;
    sharing.clear();
    sharing.capacity = capacity;
    for (const auto& links : flows) {
        sharing.links.insert(sharing.links.end(), links.begin(), links.end());
        sharing.offsets.push_back(static_cast<int64_t>(sharing.links.size()));
    }
    sharing.solve();
    return sharing.rate;
}

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
