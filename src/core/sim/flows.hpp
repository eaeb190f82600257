// A network in which flows share links max-min fairly (core/sim/fairness.hpp). Rates change only
// when a flow starts or ends.
//
// A flow's remaining bytes are updated only when its rate changes, and every time is a whole number
// of picoseconds, so that what a set of flows does depends only on the links it uses. This allows
// two shortcuts. A step that repeats on links without other traffic takes equally long each time,
// so one round is simulated and the rest are skipped. A plan that once ran undisturbed takes that
// long again on free links, so all of it is skipped. When another flow claims a link of something
// that is being skipped, the owner of the link is first put where it would really be at that moment
// (`materialize`). The outcome is therefore the same as if every round had been simulated.
#pragma once

#include <queue>

#include "core/sim/ends.hpp"
#include "core/sim/fairness.hpp"
#include "core/sim/link_history.hpp"
#include "core/sim/network.hpp"

namespace chakra::sim {

class Flows final : public Network {
   public:
    Flows(const Topology& topology, const Plans& plans);

    void start(int32_t job, int32_t plan, Rank rank, Time now) override;
    Time next_time() override;
    void step(Time now, std::vector<int32_t>& finished) override;
    void settle(Time now) override;
    void scale_link(int32_t link, double factor, Time now) override;
    void grow() override;
    std::vector<Unfinished> unfinished() const override;

    // From now on `history` is told what links carry: of each transfer its payload.
    void record(LinkHistory& history, std::span<const double> payload) {
        history_ = &history;
        payload_ = payload;
    }

   private:
    static constexpr int32_t kNobody = -1;

    enum Kind : uint8_t { kBegin, kRoundsEnd, kJobEnd };

    struct Event {
        Time time;
        Kind kind;
        int32_t id;        // active step, active step, job
        uint32_t version;  // of what `id` names; events of other versions are stale
        int64_t first;     // kBegin: the first transfer
        bool operator>(const Event& other) const { return time > other.time; }
    };

    struct Flow {
        int32_t step = -1;
        int64_t transfer = -1;  // none once it has ended
        double remaining = 0, rate = 0;
        Time since = 0;
    };

    // A step in progress. `pending` transfers of this round and `rounds` rounds are left.
    struct Active {
        int32_t job = -1;
        int64_t step = -1;
        uint32_t version = 0;
        int64_t pending = 0, rounds = 0, skipping = 0;
        Time started = 0, round_time = 0;
        uint32_t epoch = 0;  // of the links, when the round began
        bool disturbed = false, skips = false;
    };

    struct Job {
        int32_t plan = -1;
        Rank rank;
        uint32_t version = 0;
        Time started = 0, ends = 0;  // ends: while it is skipped
        uint32_t epoch = 0;          // of the links, when it started
        int32_t left = 0;
        bool disturbed = false, skips = false;
        std::vector<int32_t> waiting;  // by step: how many of `after` have not ended
    };

    bool handle_until(Time now);
    void handle(const Event& event);
    void run_steps(int32_t job, Time now);
    void begin_step(int32_t job, int64_t step, Time now);
    void begin_round(int32_t active, Time now);
    void begin_transfers(const Event& event);
    void begin_flow(int32_t active, int64_t transfer, Time now);
    void end_flow(int32_t flow, Time now);
    void end_round(int32_t active, Time now);
    void end_step(int32_t active, Time now);
    void end_job(int32_t job, Time now);

    bool skip_rounds(int32_t active, Time now);
    void end_skipped_rounds(int32_t active, Time now);
    bool skip_job(int32_t job, Time now);
    void claim(int32_t link, Time now);
    void materialize(int32_t owner, Time now);
    void materialize_rounds(int32_t active, Time now);
    void materialize_job(int32_t job, Time now);
    void catch_up(Time now);
    template <class Do>
    void for_step_links(int64_t step, Do&& act) const;
    const std::vector<int32_t>& plan_links(int32_t plan);

    void mark_disturbed(int32_t link);
    void set_rate(int32_t flow, double rate, Time now);
    void note(int64_t transfer, double bytes, Time from, Time until);
    void note_step(int64_t step, int64_t rounds, Time from, Time until);
    int32_t new_active();

    const Topology& topology_;
    const Plans& plans_;
    Fairness fairness_;
    std::vector<std::vector<int32_t>> followers_;  // by step: the steps after it, within the plan
    std::vector<Time> known_;                      // by plan: how long it takes alone, or -1
    std::vector<uint32_t> known_epoch_;            // by plan: with the links as they were then
    uint32_t epoch_ = 0;                           // how often links have changed
    std::vector<std::vector<int32_t>> links_of_plan_;
    LinkHistory* history_ = nullptr;
    std::span<const double> payload_;  // by transfer, where there is a history

    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    Ends ends_;  // of flows
    std::vector<Job> jobs_;
    std::vector<Active> active_;
    std::vector<Flow> flows_;  // numbered by fairness_
    std::vector<int32_t> free_active_, finished_;

    std::vector<uint8_t> is_marked_;  // whether who shares the link has been told, nobody new since
    std::vector<int32_t> owner_;      // what skips over the link: an active step, -2 - job, or -1
};

}  // namespace chakra::sim
