#include <map>
#include <random>
#include <stdexcept>

#include "core/serving/block_map.hpp"
#include "core/serving/blocks.hpp"
#include "core/serving/tier.hpp"
#include "harness.hpp"

using namespace chakra::serving;

static const std::vector<Codec> CODECS{Codec{}, Codec{4.0, 0, 0}};

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
    Store store{Tier(0), CODECS};
    Blocks blocks({.count = 3}, store);
    int32_t a = blocks.take(), b = blocks.take(), c = blocks.take();
    EXPECT(blocks.free(), 0);
    REFUSES(std::logic_error, "no block is free", blocks.take());
    blocks.name(a, 11, 0), blocks.name(b, 22, 0);
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
    Store store{Tier(1), CODECS};
    Blocks blocks({.count = 1, .host = 2}, store);
    for (uint64_t key : {1, 2, 3, 4, 5}) {
        int32_t block = blocks.take();
        blocks.name(block, key, 0);
        blocks.drop(block);
    }
    EXPECT(blocks.find(5), 0);
    EXPECT(blocks.on_host(4), true);
    EXPECT(blocks.on_host(3), true);
    EXPECT(blocks.on_host(2), false);
    EXPECT(blocks.stored(2), 0);
    EXPECT(blocks.stored(1), -1);
}

STORY("a policy chooses which content goes, among blocks that are free") {
    Store store{Tier(0), CODECS};
    Blocks blocks({.count = 2}, store);
    int32_t a = blocks.take(), b = blocks.take();
    blocks.name(a, 1, 0), blocks.name(b, 2, 0);
    blocks.drop(a), blocks.drop(b);
    blocks.on_evict([&](const std::vector<int32_t>& cached) { return cached.back(); });
    EXPECT(blocks.take(), b);
    blocks.on_evict([&](const std::vector<int32_t>&) { return b; });  // held now
    REFUSES(std::out_of_range, "not free", blocks.take());
}

STORY("blocks in the store take the room of their codec") {
    Store store{Tier(1), CODECS};
    Blocks blocks({.count = 1}, store);
    blocks.on_store([](int32_t request) { return request; });
    for (uint64_t key : {1, 2, 3, 4, 5, 6}) {
        int32_t block = blocks.take();
        blocks.name(block, key, 1);  // a quarter of a block each
        blocks.drop(block);
    }
    EXPECT(blocks.stored(1), -1);
    for (uint64_t key : {2, 3, 4, 5}) EXPECT(blocks.stored(key), 1);
    int32_t block = blocks.take();  // 6 leaves, and 2 with it
    blocks.name(block, 7, 0);
    blocks.drop(block);
    EXPECT(blocks.stored(6), 1);
    EXPECT(blocks.stored(2), -1);
    blocks.take();  // 7 leaves as it is, and needs the whole store
    EXPECT(blocks.stored(7), 0);
    EXPECT(blocks.stored(6), -1);
}

STORY("content of another model is not found in the store") {
    Store store{Tier(4), CODECS};
    Blocks mine({.count = 1, .salt = 1}, store), other({.count = 1, .salt = 2}, store);
    int32_t block = mine.take();
    mine.name(block, 9, 0);
    mine.drop(block);
    mine.take();
    EXPECT(mine.stored(9), 0);
    EXPECT(other.stored(9), -1);
}

STORY(
    "memory that is taken away leaves at once as far as it is free, and the rest as it becomes "
    "free") {
    Store store{Tier(0), CODECS};
    Blocks blocks({.count = 4, .most = 5, .host = 4, .ghosts = 2}, store);
    std::vector<int32_t> held;
    for (uint64_t key : {1, 2, 3}) {
        held.push_back(blocks.take());
        blocks.name(held.back(), key, 0);
    }
    blocks.resize(2);
    EXPECT(blocks.total(), 2);
    EXPECT(blocks.free(), 0);
    EXPECT(blocks.held(), 3);
    blocks.drop(held[0]);
    EXPECT(blocks.free(), 0);  // it left with its content
    EXPECT(blocks.find(1), -1);
    EXPECT(blocks.left_lately(1), true);
    blocks.drop(held[1]);
    EXPECT(blocks.free(), 1);
    EXPECT(blocks.held(), 1);
    blocks.resize(5);
    EXPECT(blocks.free(), 4);
    EXPECT(blocks.refill(), 1);  // what the host has
    EXPECT(blocks.find(1) >= 0, true);
    EXPECT(blocks.find(2) >= 0, true);  // it never left
    for (int i = 0; i < 2; ++i) EXPECT(blocks.has_key(blocks.take()), false);
    EXPECT(blocks.find(1) >= 0, true);
}

STORY("blocks that nobody used take no room, and content that comes back comes before them") {
    Store store{Tier(0), CODECS};
    Blocks blocks({.count = 2, .most = 1 << 30, .host = 4}, store);
    for (uint64_t key : {1, 2, 3}) {
        int32_t block = blocks.take();
        blocks.name(block, key, 0);
        blocks.drop(block);
    }
    EXPECT(blocks.used(), size_t{2});
    blocks.resize(1 << 30);
    EXPECT(blocks.free(), int64_t{1} << 30);
    EXPECT(blocks.refill(), 1);
    EXPECT(blocks.used(), size_t{3});
    EXPECT(blocks.find(1) >= 0, true);
    EXPECT(blocks.has_key(blocks.take()), false);
    blocks.resize(4);
    EXPECT(blocks.free(), 3);
    EXPECT(blocks.find(1) >= 0, true);
}
