// A network in which flows share links max-min fairly. Rates change only when a flow starts or
// ends.
//
// A flow's remaining bytes are updated only when its rate changes, and every time is a whole number
// of picoseconds, so that what a set of flows does depends only on the links it uses. This allows
// two shortcuts. A step that repeats on links without other traffic takes equally long each time,
// so one round is simulated and the rest are skipped. A plan that once ran undisturbed takes that
// long again on free links, so all of it is skipped. When another flow claims a link of something
// that is being skipped, the owner of the link is first put where it would really be at that moment
// (`materialize`). The outcome is therefore the same as if every round had been simulated.
//
// When flows come and go, rates below the lowest of theirs stay as they are: progressive filling
// would give the same shares up to there. Only flows at or above that floor are shared anew, on
// what the others leave of their links.
#pragma once

#include <queue>

#include "core/sim/fairness.hpp"
#include "core/sim/network.hpp"

namespace chakra::sim {

class Flows final : public Network {
   public:
    Flows(const Topology& topology, const Plans& plans);

    void start(int32_t job, int32_t plan, Time now) override;
    Time next_time() override;
    void step(Time now, std::vector<int32_t>& finished) override;
    void settle(Time now) override;
    void scale_link(int32_t link, double factor, Time now) override;

   private:
    static constexpr int32_t kNobody = -1;
    static constexpr double kFresh = -1;
    static constexpr double kNoFloor = std::numeric_limits<double>::infinity();

    enum Kind : uint8_t { kBegin, kFlowEnd, kRoundsEnd, kJobEnd };

    struct Event {
        Time time;
        Kind kind;
        int32_t id;        // active step, flow, active step, job
        uint32_t version;  // of what `id` names; events of other versions are stale
        int64_t first;     // kBegin: the first transfer
        bool operator>(const Event& other) const { return time > other.time; }
    };

    struct Flow {
        int32_t route = -1, step = -1;
        uint32_t version = 0;  // of its end: changes with its rate
        double remaining = 0, rate = 0;
        Time since = 0;
        std::vector<int32_t> place;  // its place on each link of its route
    };

    // A step in progress. `pending` transfers of this round and `rounds` rounds are left.
    struct Active {
        int32_t job = -1;
        int64_t step = -1;
        uint32_t version = 0;
        int64_t pending = 0, rounds = 0, skipping = 0;
        Time started = 0, round_time = 0;
        bool disturbed = false, skips = false;
    };

    struct Job {
        int32_t plan = -1;
        uint32_t version = 0;
        Time started = 0;
        int32_t left = 0;
        bool disturbed = false, skips = false;
        std::vector<int32_t> waiting;  // by step: how many of `after` have not ended
    };

    // A flow on a link, with what sharing asks of it, so that a link is read in one go.
    struct OnLink {
        double rate;  // kFresh until it is first shared
        int32_t flow;
        int32_t hop;  // which link of the flow's route this is
        int32_t step;
    };

    bool handle_until(Time now);
    void handle(const Event& event);
    void run_steps(int32_t job, Time now);
    void begin_step(int32_t job, int64_t step, Time now);
    void begin_round(int32_t active, Time now);
    void begin_transfers(const Event& event);
    void begin_flow(int32_t active, int64_t transfer, Time now);
    void end_flow(const Event& event);
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

    void touch(int32_t link);
    double lowest_changed();
    void share_from(int32_t link, double floor, Time now);
    void gather(int32_t link, double floor);
    void mark_disturbed(int32_t link);
    void set_rate(int32_t flow, double rate, Time now);
    int32_t new_flow();
    int32_t new_active();

    const Topology& topology_;
    const Plans& plans_;
    std::vector<double> bandwidth_;
    std::vector<std::vector<int32_t>> followers_;  // by step: the steps after it, within the plan
    std::vector<Time> known_;                      // by plan: how long it takes alone, or -1
    std::vector<std::vector<int32_t>> links_of_plan_;

    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<Job> jobs_;
    std::vector<Active> active_;
    std::vector<Flow> flows_;
    std::vector<int32_t> free_active_, free_flows_, finished_;

    std::vector<std::vector<OnLink>> on_link_;
    std::vector<Sharing::Fixed> taken_;  // by link: the sum of the rates of its flows
    std::vector<uint8_t> is_marked_;  // whether who shares the link has been told, nobody new since
    std::vector<int32_t> owner_;      // what skips over the link: an active step, -2 - job, or -1
    std::vector<int32_t> dirty_;      // links to share anew
    std::vector<uint8_t> is_dirty_;
    std::vector<int32_t> fresh_;  // flows that have not been shared yet
    double floor_ = kNoFloor;     // the lowest rate among the flows that ended since

    // What is being shared.
    Sharing sharing_;
    std::vector<int32_t> link_number_, found_links_, found_flows_;
    std::vector<uint32_t> flow_seen_;
    uint32_t seen_ = 0;
};

}  // namespace chakra::sim
