// A simulator in 80 lines: one compute unit, one network link, nodes from the chakrakit feeder.
//
// Compile and run:
//
//     FLAGS=$(python -c "import chakrakit; print(chakrakit.feeder_paths().flags)")
//     g++ -std=c++17 -O2 simulator.cpp -o simulator $FLAGS
//     ./simulator rank.0.et
//
// Each unit runs one node at a time, the lowest id first. Compute takes its recorded duration;
// communication takes its own if it has one, else its size over 100 bytes a nanosecond. Metadata
// takes no time.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <queue>
#include <vector>

#include "chakrakit/feeder.h"

namespace {

constexpr int64_t kBytesPerNanosecond = 100;
enum Type { kMetadata = 1, kFirstComm = 5, kLastComm = 7 };  // as in the schema

struct Unit {
    using Ids = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;
    Ids queue;
    uint64_t running = 0;
    int64_t ends = -1;  // -1: idle
};

bool is_comm(const chakra_node* node) {
    int32_t type = chakra_node_type(node);
    return type >= kFirstComm && type <= kLastComm;
}

int64_t nanoseconds(const chakra_node* node) {
    if (chakra_node_type(node) == kMetadata) return 0;
    int64_t recorded = static_cast<int64_t>(chakra_node_duration_micros(node)) * 1000;
    if (recorded > 0 || !is_comm(node)) return recorded;
    return chakra_node_comm_size(node) / kBytesPerNanosecond;
}

void start(chakra_feeder* feeder, Unit& unit, int64_t now) {
    if (unit.ends >= 0 || unit.queue.empty()) return;
    unit.running = unit.queue.top();
    unit.queue.pop();
    unit.ends = now + nanoseconds(chakra_feeder_lookup(feeder, unit.running));
}

void finish(chakra_feeder* feeder, Unit& unit, int64_t now) {
    if (unit.ends != now) return;
    chakra_feeder_done(feeder, unit.running);
    unit.ends = -1;
}

// The end of what ends first; -1 if both are idle.
int64_t next_end(const Unit& a, const Unit& b) {
    if (a.ends < 0 || b.ends < 0) return a.ends < 0 ? b.ends : a.ends;
    return a.ends < b.ends ? a.ends : b.ends;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: %s TRACE.et\n", argv[0]), 2;
    chakra_feeder* feeder;
    const chakra_node* node;
    Unit compute, link;
    int64_t now = 0;
    int status = chakra_feeder_open(argv[1], nullptr, &feeder);
    while (status >= 0) {
        while ((status = chakra_feeder_next(feeder, &node)) == CHAKRA_TAKEN)
            (is_comm(node) ? link : compute).queue.push(chakra_node_id(node));
        if (status != CHAKRA_NONE_READY) break;
        start(feeder, compute, now);
        start(feeder, link, now);
        now = next_end(compute, link);
        finish(feeder, compute, now);
        finish(feeder, link, now);
    }
    if (status == CHAKRA_FINISHED) std::printf("makespan: %lld ns\n", static_cast<long long>(now));
    if (status < 0) std::fprintf(stderr, "%s: %s\n", argv[1], chakra_feeder_error(feeder));
    chakra_feeder_close(feeder);
    return status == CHAKRA_FINISHED ? 0 : 1;
}
