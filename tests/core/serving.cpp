#include <map>
#include <random>
#include <stdexcept>

#include "core/serving/block_map.hpp"
#include "core/serving/blocks.hpp"
#include "core/serving/tier.hpp"
#include "harness.hpp"

using namespace chakra::serving;

STORY("a map of blocks agrees with std::map through insertions and erasures") {
    std::mt19937_64 random(5);
    BlockMap map;
    std::map<uint64_t, int32_t> expected;
    for (int i = 0; i < 20000; ++i) {
        uint64_t key = 1 + random() % 500;
        if (random() % 2 == 0) {
            map.erase(key);
            expected.erase(key);
        } else if (!expected.contains(key)) {
            map.insert(key, i);
            expected[key] = i;
        }
    }
    EXPECT(map.size(), expected.size());
    int wrong = 0;
    for (uint64_t key = 1; key <= 500; ++key)
        wrong += map.find(key) != (expected.contains(key) ? expected[key] : -1);
    EXPECT(wrong, 0);
}

STORY("blocks are reused least recently freed first, and found by content until then") {
    Tier remote(0);
    Blocks blocks(3, 0, remote);
    int32_t a = blocks.take(), b = blocks.take(), c = blocks.take();
    EXPECT(blocks.free(), 0);
    REFUSES(std::logic_error, "no block is free", blocks.take());
    blocks.name(a, 11), blocks.name(b, 22);
    blocks.drop(b), blocks.drop(a);
    EXPECT(blocks.find(22), b);
    EXPECT(blocks.take(), b);  // freed first
    EXPECT(blocks.find(22), -1);
    blocks.hold(blocks.find(11));
    EXPECT(blocks.free(), 0);
    blocks.hold(a);
    EXPECT(blocks.references(a), 2);
    blocks.drop(a);
    EXPECT(blocks.held(), 3);
    blocks.drop(c);
    REFUSES(std::logic_error, "released twice", (blocks.drop(c), 0));
}

STORY("content that leaves the device goes to the host, and from there to the remote store") {
    Tier remote(1);
    Blocks blocks(1, 2, remote);
    for (uint64_t key : {1, 2, 3, 4, 5}) {
        int32_t block = blocks.take();
        blocks.name(block, key);
        blocks.drop(block);
    }
    EXPECT(blocks.find(5), 0);
    EXPECT(blocks.on_host(4), true);
    EXPECT(blocks.on_host(3), true);
    EXPECT(blocks.on_host(2), false);
    EXPECT(blocks.on_remote(2), true);
    EXPECT(blocks.on_remote(1), false);
}

STORY("a policy chooses which content goes, among blocks that are free") {
    Tier remote(0);
    Blocks blocks(2, 0, remote);
    int32_t a = blocks.take(), b = blocks.take();
    blocks.name(a, 1), blocks.name(b, 2);
    blocks.drop(a), blocks.drop(b);
    blocks.on_evict([&](const std::vector<int32_t>& cached) { return cached.back(); });
    EXPECT(blocks.take(), b);
    blocks.on_evict([&](const std::vector<int32_t>&) { return b; });  // held now
    REFUSES(std::out_of_range, "not free", blocks.take());
}
