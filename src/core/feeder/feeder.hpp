// Gives a trace's nodes to a simulator in an order their dependencies allow, reading as it goes.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/feeder/feed_node.hpp"
#include "core/feeder/frontier.hpp"
#include "core/wire/frames.hpp"

namespace chakra {

struct FeederOptions {
    uint64_t window = 65536;      // nodes read and not yet taken, at least 1
    bool ctrl = true;             // ctrl_deps count too, not only data_deps
    bool ignore_missing = false;  // a dependency that is not in the trace holds nothing up
};

// A node is read, becomes ready when the nodes it depends on are done, is taken, and is done.
//
// `take` gives the lowest id among the nodes that are ready. Before it looks, it reads on while
// fewer than `window` nodes are read and not taken, and, however many there are, while none is
// ready and none is taken. So it gives nothing only if something is in flight or the trace is
// finished: it never stalls for want of reading, and the order depends on the trace, the window and
// the order of `done` calls alone.
//
// Damaged input throws FormatError as soon as it is read; a dependency that is not in the trace
// throws FeedError(kDeadlock) at the end of input, a cycle when nothing else is left. These repeat
// on every later call that would read. Calls for a node in the wrong state throw FeedError(kUse)
// and change nothing. Memory is bounded by the window and by what waits for nodes further on in the
// file.
class Feeder {
   public:
    explicit Feeder(ByteReader read, FeederOptions options = {});
    Feeder(const Feeder&) = delete;
    Feeder& operator=(const Feeder&) = delete;

    // Null if nothing is ready.
    std::shared_ptr<const FeedNode> take();
    // Takes the given node, which must be ready, instead of the lowest.
    std::shared_ptr<const FeedNode> take(uint64_t id);
    void push_back(uint64_t id) { frontier_.push_back(id); }
    void done(uint64_t id);

    // Lets go of the input; calls that would read throw FeedError(kUse) from now on.
    void close();

    // Every node is done. Reads on if it must to know.
    bool finished();
    std::vector<uint64_t> ready_ids();
    size_t in_flight() const { return frontier_.in_flight(); }

    // A node that was read and is not done, or null.
    std::shared_ptr<const FeedNode> lookup(uint64_t id);
    // Ids of nodes read so far that wait for this one; empty if it is not resident.
    std::vector<uint64_t> children(uint64_t id) const;

   private:
    // Holds the bytes until the node is first looked at, then the node: most of a wide frontier is
    // not looked at before its turn.
    struct Resident {
        NodeBytes bytes;
        std::shared_ptr<const FeedNode> node;
    };

    void read_on();
    bool wants_more() const;
    void refuse_if_reading() const;
    std::optional<Frame> next_frame();
    void read_node();
    void end_input();
    void check_missing();
    void check_cycle();
    template <class Body>
    void remember_failure(Body body);
    const std::shared_ptr<const FeedNode>& node_at(Frontier::Slot slot);
    std::string describe(uint64_t id) const;

    FrameReader frames_;
    FeederOptions options_;
    Frontier frontier_;
    std::vector<Resident> residents_;  // by slot
    std::vector<uint64_t> deps_;       // of the node being read
    std::exception_ptr failure_;
    bool reading_ = false;  // the reader, which may be a caller's code, is running
    bool ended_ = false;
};

}  // namespace chakra
