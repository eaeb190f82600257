#include "core/feeder/feeder.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace chakra {

namespace {

constexpr size_t kNamedNodes = 16;     // in a message about a cycle
constexpr size_t kNamedMissing = 4;    // in a message about missing nodes
constexpr size_t kNamedLetters = 120;  // of a name

// Gives errors about a frame's content their place in the file.
template <class Body>
auto in_frame(const Frame& frame, Body body) {
    try {
        return body();
    } catch (const FormatError& e) {
        int64_t inside = std::max<int64_t>(e.offset(), 0);
        throw FormatError(frame_name(frame.number) + ": " + e.what(), frame.offset + inside);
    }
}

void check_metadata(const Frame& frame) try {
    wire::Cursor in(frame.bytes.data(), frame.bytes.data() + frame.bytes.size());
    while (!in.done()) in.skip(in.tag());
} catch (const FormatError& e) {
    std::string what = std::string("the metadata: ") + e.what() + "; is this a Chakra .et file?";
    throw FormatError(what, frame.offset + e.offset());
}

}  // namespace

Feeder::Feeder(ByteReader read, FeederOptions options)
    : frames_(std::move(read)), options_(options) {
    if (options_.window == 0) throw FeedError(FeedError::kUse, "window must be at least 1, not 0");
    check_metadata(*frames_.next());
}

std::shared_ptr<const FeedNode> Feeder::take() {
    read_on();
    auto slot = frontier_.take();
    return slot ? node_at(*slot) : nullptr;
}

std::shared_ptr<const FeedNode> Feeder::take(uint64_t id) {
    return node_at(frontier_.take(id));
}

void Feeder::done(uint64_t id) {
    residents_[frontier_.done(id)] = {};
}

void Feeder::close() {
    refuse_if_reading();
    frames_ = FrameReader([](uint8_t*, size_t) { return size_t{0}; });
    failure_ = std::make_exception_ptr(FeedError(FeedError::kUse, "the feeder is closed"));
}

bool Feeder::finished() {
    read_on();
    return ended_ && frontier_.open() == 0;
}

std::vector<uint64_t> Feeder::ready_ids() {
    read_on();
    return frontier_.ready_ids();
}

std::shared_ptr<const FeedNode> Feeder::lookup(uint64_t id) {
    auto slot = frontier_.find(id);
    return slot ? node_at(*slot) : nullptr;
}

std::vector<uint64_t> Feeder::children(uint64_t id) const {
    auto slot = frontier_.find(id);
    return slot ? frontier_.children(*slot) : std::vector<uint64_t>{};
}

void Feeder::read_on() {
    refuse_if_reading();
    if (failure_) std::rethrow_exception(failure_);
    while (wants_more()) remember_failure([&] { read_node(); });
    if (ended_ && frontier_.ready() + frontier_.in_flight() == 0)
        remember_failure([&] { check_cycle(); });
}

bool Feeder::wants_more() const {
    if (ended_) return false;
    return frontier_.waiting() + frontier_.ready() < options_.window ||
           frontier_.ready() + frontier_.in_flight() == 0;
}

// Errors of a caller's own reader pass through and may be overcome; those of the trace stay.
template <class Body>
void Feeder::remember_failure(Body body) {
    try {
        body();
    } catch (const FormatError&) {
        failure_ = std::current_exception();
        throw;
    } catch (const FeedError&) {
        failure_ = std::current_exception();
        throw;
    }
}

void Feeder::refuse_if_reading() const {
    if (reading_) throw FeedError(FeedError::kUse, "the feeder is reading already");
}

std::optional<Frame> Feeder::next_frame() {
    struct Flag {
        bool& flag;
        ~Flag() { flag = false; }
    } until_return{reading_};
    reading_ = true;
    return frames_.next();
}

void Feeder::read_node() {
    auto frame = next_frame();
    if (!frame) return end_input();
    in_frame(*frame, [&] {
        uint64_t id = scan_node(frame->bytes, options_.ctrl, deps_);
        Frontier::Slot slot = frontier_.add(id, deps_);
        if (slot >= residents_.size()) residents_.resize(slot + 1);
        residents_[slot].bytes = NodeBytes(frame->bytes);
    });
}

void Feeder::end_input() {
    ended_ = true;
    if (options_.ignore_missing)
        frontier_.release_missing();
    else if (frontier_.missing_count() > 0)
        check_missing();
}

void Feeder::check_missing() {
    auto found = frontier_.missing(kNamedMissing, 1);
    std::string text;
    for (const auto& each : found)
        text += (text.empty() ? "" : "; ") + describe(each.waiters.front()) + " waits for node " +
                std::to_string(each.id) + ", which is not in the trace";
    if (size_t more = frontier_.missing_count() - found.size())
        text += "; and so for " + std::to_string(more) + " more missing nodes";
    throw FeedError(FeedError::kDeadlock, text);
}

void Feeder::check_cycle() {
    if (frontier_.waiting() == 0) return;
    std::vector<uint64_t> ids = frontier_.cycle();
    std::string text = "nodes wait for each other: ";
    for (size_t i = 0; i < std::min(ids.size(), kNamedNodes); ++i) text += describe(ids[i]) + " → ";
    if (ids.size() > kNamedNodes)
        text += std::to_string(ids.size() - kNamedNodes) + " more nodes → ";
    text += "node " + std::to_string(ids.front()) + " (each must run before the next)";
    throw FeedError(FeedError::kDeadlock, text);
}

const std::shared_ptr<const FeedNode>& Feeder::node_at(Frontier::Slot slot) {
    Resident& resident = residents_[slot];
    if (!resident.node) resident.node = std::make_shared<const FeedNode>(std::move(resident.bytes));
    return resident.node;
}

std::string Feeder::describe(uint64_t id) const {
    const Resident& resident = residents_[*frontier_.find(id)];
    std::string name = resident.node ? resident.node->name : node_name(resident.bytes);
    if (name.size() > kNamedLetters) name = name.substr(0, kNamedLetters) + "…";
    // A message stays one line whatever the file holds.
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return c < ' '; }, '?');
    return "node " + std::to_string(id) + (name.empty() ? "" : " '" + name + "'");
}

}  // namespace chakra
