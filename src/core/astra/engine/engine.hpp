// The engine of ASTRA-sim mode: exact to the tick and, within a tick, in ASTRA-sim's order of
// events.
//
// An actor is a rank or, when ranks are folded, the one rank that stands for its class. Actors meet
// only through messages, links and shared memory. At one tick events run in order of insertion,
// except that all local events of one actor at one tick run together, at the place of the first one
// inserted.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/astra/engine/calendar.hpp"
#include "core/astra/engine/mailbox.hpp"
#include "core/astra/model/error.hpp"
#include "core/astra/plan/fold.hpp"
#include "core/astra/plan/network.hpp"
#include "core/astra/plan/plan.hpp"

namespace chakra::astra {

// What one rank (or class of ranks) did. Times are -1 where a node never ran.
struct Timeline {
    Tick finished = -1;
    Tick gpu_time = 0;
    std::vector<Tick> start;
    std::vector<Tick> end;
};

struct LinkUse {
    uint64_t key = 0;  // Ring: rank*2 + (0 clockwise, 1 back); Switch: rank*2 + (0 up, 1 down);
                       // FullyConnected: from*ranks + to; without congestion: rank*dimensions + k
    uint64_t messages = 0;
    uint64_t bytes = 0;
    Tick busy = 0;
};

struct Outcome {
    std::vector<Timeline> actors;
    std::vector<LinkUse> links;  // of the actors
    uint64_t events = 0;
    std::string stuck;  // lenient: why some rank never finished
};

class Engine {
   public:
    Engine(const Program& program, const System& system, const Network& network,
           const Memory& memory, const Folding& folding);

    // Throws SimulationError, or NotFoldable when a tie could tell folded ranks apart.
    Outcome run();

   private:
    enum class Slot : uint8_t { Cpu, Gpu, Comm, Free };

    enum class LocalKind : uint8_t {
        Pass,     // the endpoint delay of a chunk's item is over; `extra` is its reduction or -1
        PassEnd,  // the reduction is over
        Node,     // a node's own time is over
        Served,   // the shared memory `index` is free for the next request
        Custom,   // a compute node of a custom collective is over
    };
    struct Local {
        uint32_t next = kNone;
        LocalKind kind = LocalKind::Node;
        uint32_t index = 0;
        Tick extra = 0;
    };
    struct LocalList {
        uint32_t next = kNone;  // of the same actor
        Tick tick = 0;
        uint32_t head = kNone;
        uint32_t tail = kNone;
    };

    // A chunk's state in its current phase. `sent` messages have gone and had their receives
    // posted.
    struct Chunk {
        uint16_t phase = 0;
        uint16_t queue = 0;
        bool backward = false;
        bool max_tree = false;
        uint8_t posted = 0;  // tree: receives open, one bit each
        uint32_t me = 0;     // position among the phase's members
        uint32_t sent = 0;
        uint32_t credit = 0;
        uint32_t prepared = 0;
        uint32_t received = 0;
    };
    struct Queue {
        uint32_t running = 0;
        size_t head = 0;
        std::vector<uint32_t> waiting;  // from `head` on
    };
    struct Rota {
        uint32_t any = 0;
        uint32_t first = 0;
        uint32_t last = 0;
        bool max_tree = true;
    };
    struct Collective {
        bool active = false;
        uint32_t node = kNone;
        uint32_t group = 0;  // row of Program::groups
        uint32_t slot = 0;   // the group as messages name it
        uint32_t first_tag = 0;
        uint32_t plan = kNone;
        uint32_t done = 0;
        uint32_t me = 0;  // position in the group's list
        std::vector<Chunk> chunks;
        std::vector<uint16_t> queues;  // by chunk and phase
    };
    struct CustomRun {
        const Body* body = nullptr;
        std::vector<uint32_t> missing;
        uint32_t in_flight = 0;
    };
    // Events of one actor that meet at one tick and were inserted at one tick.
    struct Meeting {
        Tick tick = -1;
        Tick inserted = -1;
        uint64_t from = 0;
        uint64_t what = 0;
        bool one_source = true;
        bool one_thing = true;
    };
    struct Actor {
        Rank rank = 0;
        const Body* body = nullptr;
        bool done = false;
        bool busy[3] = {false, false, false};
        uint32_t in_flight = 0;
        uint32_t ran = 0;
        uint32_t open_lists = kNone;
        std::vector<uint32_t> missing;                    // dependencies not yet done, by node
        std::vector<uint32_t> ready[4];                   // min-heaps of rows, by Slot
        std::vector<uint32_t> freed;                      // by zero-time nodes, for the next walk
        std::vector<Queue> queues;                        // by dimension and queue
        std::vector<Rota> rota;                           // by dimension
        std::vector<std::pair<uint32_t, uint32_t>> tags;  // next tag by group
        Collective coll;
        CustomRun custom;
        Meeting meeting;
        std::vector<uint64_t> uncertain;  // folding: phases whose messages may come in any order
        uint32_t zero_time_node = kNone;
    };
    struct Store {
        bool busy = false;
        size_t head = 0;
        std::vector<std::pair<uint32_t, uint32_t>> waiting;  // actor, node
    };
    struct Parcel {
        uint32_t next = kNone;
        Event event;
        Rank at = 0;
        Rank to = 0;
        bool at_switch = false;
        uint64_t bytes = 0;
    };
    struct Link {
        bool busy = false;
        uint32_t head = kNone;
        uint32_t tail = kNone;
        LinkUse use;
        Meeting meeting;
    };

    // engine.cpp: the loop, local events and ties
    void dispatch(const Event& e);
    void local(uint32_t a, Tick after, Local item);
    void run_local(uint32_t a, uint32_t list);
    void run_local_item(uint32_t a, const Local& item);
    bool watch(Meeting& meeting, const Event& e, uint64_t what);
    void watch_actor(const Event& e);
    uint64_t purpose(const Event& e);
    [[noreturn]] void fail(uint32_t a, uint32_t node, const std::string& why) const;
    std::string describe(uint32_t a, uint32_t node) const;
    std::string group_name(uint32_t group) const;
    Outcome outcome();

    // workload.cpp: which node runs when
    void walk(uint32_t a);
    uint32_t next_issuable(Actor& actor) const;
    bool issue(uint32_t a, uint32_t node);
    bool issue_compute(uint32_t a, uint32_t node);
    void issue_replay(uint32_t a, uint32_t node, bool gpu);
    void add_gpu_time(uint32_t a, Tick time);
    void issue_memory(uint32_t a, uint32_t node);
    void issue_send(uint32_t a, uint32_t node);
    void issue_recv(uint32_t a, uint32_t node);
    const Op& message_of(uint32_t a, uint32_t node, const char* does, const char* attribute);
    void issue_collective(uint32_t a, uint32_t node);
    void completed(uint32_t a, uint32_t node);
    void release(Actor& actor, uint32_t node, std::vector<uint32_t>& freed);
    void make_ready(Actor& actor, uint32_t node);
    void finish_if_idle(uint32_t a);
    Slot slot_of(const Body& body, uint32_t node) const;
    void serve(uint32_t a, uint32_t node, uint32_t store);
    void served(uint32_t store);
    uint32_t store_of(Rank rank) const;
    Tick memory_time(uint64_t bytes) const;

    // collective.cpp: chunks, phases and queues
    void start_native(uint32_t a, uint32_t node, const Op& op);
    uint32_t position_in(uint32_t a, uint32_t node, uint32_t group) const;
    uint32_t plan_of(uint32_t a, uint32_t node, const Op& op);
    uint32_t take_tags(Actor& actor, uint32_t group, uint32_t count);
    void choose_queues(Actor& actor, uint32_t chunk, const Plan& plan);
    uint16_t choose_queue(Actor& actor, const Phase& phase);
    void enter_phase(uint32_t a, uint32_t c);
    void start_waiting(uint32_t a, uint32_t queue);
    void start_chunk(uint32_t a, uint32_t c);
    void prepare(uint32_t a, uint32_t c);
    void pass_ended(uint32_t a, uint32_t c);
    void arrived(uint32_t a, uint32_t c);
    bool try_send(uint32_t a, uint32_t c);
    void send_item(uint32_t a, uint32_t c, uint32_t item);
    void phase_ended(uint32_t a, uint32_t c);
    uint32_t position(const Actor& actor, const Phase& phase) const;
    uint32_t target(const Phase& phase, const Chunk& chunk, uint32_t item) const;
    uint32_t source(const Phase& phase, const Chunk& chunk, uint32_t item) const;
    Rank member(const Actor& actor, const Chunk& chunk, uint32_t position) const;
    const Phase& phase_of(const Actor& actor, const Chunk& chunk) const;

    // tree.cpp: doubleBinaryTree
    void start_tree(uint32_t a, uint32_t c);
    void tree_pass_ended(uint32_t a, uint32_t c);
    void tree_arrived(uint32_t a, uint32_t c);
    void tree_post(uint32_t a, uint32_t c, uint32_t item);

    // custom.cpp: collectives given as graphs
    void start_custom(uint32_t a, uint32_t node, const Custom& custom, const Op& op);
    void issue_custom(uint32_t a, const std::vector<uint32_t>& nodes);
    void issue_custom_node(uint32_t a, uint32_t node);
    void custom_completed(uint32_t a, uint32_t node);

    // transport.cpp: messages
    void send_chunk(uint32_t a, uint32_t c, uint32_t item, uint32_t to);
    void transmit_chunk(const Actor& actor, const Chunk& chunk, uint32_t to, const Event& event);
    void post_chunk(uint32_t a, uint32_t c, uint32_t item, uint32_t from);
    void chunk_came(const Event& e);
    bool agree(uint32_t plan, uint32_t other) const;
    Key chunk_key(uint32_t actor, uint32_t slot, uint32_t tag, uint32_t phase, uint32_t item) const;
    uint32_t slot_at(Rank rank, uint32_t group) const;
    uint64_t channel(const Phase& phase, uint32_t slot, uint32_t from, uint32_t to) const;
    void send(const Endpoint& sender, const Key& key, Rank from, Rank to, uint64_t bytes,
              uint64_t channel);
    void receive(const Endpoint& receiver, const Key& key, Rank from);
    void post(const Endpoint& receiver, const Key& key);
    void await(const Key& key, uint32_t waiter, uint32_t actor);
    void letter_came(const Event& e);
    void notice_came(const Event& e);
    void matched(const Waiter& waiter);
    void sent(const Endpoint& sender);
    void transmit(Rank from, Rank to, uint64_t bytes, Event event);
    Key message_key(Rank from, Rank to, uint32_t tag, uint64_t bytes) const;

    // links.cpp: congestion
    void put_on_link(uint32_t parcel);
    uint32_t link_for(Parcel& parcel);
    uint32_t link_named(uint64_t key);
    void start_link(uint32_t link, uint32_t parcel);
    void link_free(uint32_t link);
    void hop(const Event& e);
    void count(Rank from, uint32_t dim, uint64_t bytes);

    // stuck.cpp: why a rank never finished
    std::string explain() const;
    std::string explain_actor(uint32_t a) const;
    std::string explain_idle(uint32_t a) const;
    std::string explain_collective(uint32_t a) const;
    std::string explain_peer(Rank rank, uint32_t group) const;
    void require_all_ran() const;
    void require_all_received() const;

    const Program& program_;
    const System& system_;
    const Memory& memory_;
    const Folding& folding_;
    Topology topology_;
    Planner planner_;
    bool aware_ = false;
    uint32_t concurrent_ = 1;  // running chunks per queue
    uint32_t unfinished_ = 0;
    uint64_t events_ = 0;
    uint64_t unlike_ = 0;  // a new number for each event that must not be taken for another
    Calendar calendar_;
    std::vector<Actor> actors_;
    std::vector<Timeline> timelines_;
    Pool<Local> locals_;
    Pool<LocalList> lists_;
    Pool<Letter> letters_;
    Pool<Waiter> waiters_;
    Pool<Parcel> parcels_;
    Mailbox mailbox_;
    std::vector<Link> links_;
    std::unordered_map<uint64_t, uint32_t> link_rows_;
    std::vector<Store> stores_;
};

}  // namespace chakra::astra
