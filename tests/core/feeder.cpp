#include "core/feeder/feeder.hpp"

#include <map>
#include <random>
#include <set>

#include "core/error.hpp"
#include "harness.hpp"
#include "message.hpp"

using namespace chakra;
using namespace unit;

namespace {

using Ids = std::vector<uint64_t>;

std::string node(uint64_t id, const Ids& data = {}, const Ids& ctrl = {}) {
    Message m;
    m.number(1, id).text(2, "n" + std::to_string(id));
    for (uint64_t d : ctrl) m.number(4, d);
    for (uint64_t d : data) m.number(5, d);
    return framed(m);
}

ByteReader reading(std::string nodes) {
    std::string file = framed(Message().text(1, "1")) + nodes;
    return [file, at = size_t{0}](uint8_t* buffer, size_t n) mutable {
        size_t got = std::min(n, file.size() - at);
        std::memcpy(buffer, file.data() + at, got);
        at += got;
        return got;
    };
}

// Takes and finishes everything, in the order the feeder gives it out.
Ids drained(Feeder& feeder) {
    Ids order;
    while (auto node = feeder.take()) {
        order.push_back(node->id);
        feeder.done(node->id);
    }
    return order;
}

}  // namespace

STORY("a map of ids agrees with std::map through insertions and erasures") {
    std::mt19937_64 random(1);
    IdMap<uint32_t> map;
    std::map<uint64_t, uint32_t> expected;
    for (int i = 0; i < 20000; ++i) {
        uint64_t key = random() % 700 * (random() % 2 ? 1 : uint64_t{1} << 40);
        if (random() % 3) {
            map[key] = expected[key] = static_cast<uint32_t>(i + 1);
        } else {
            map.erase(key);
            expected.erase(key);
        }
    }
    EXPECT(map.size(), expected.size());
    int wrong = 0;
    for (auto [key, value] : expected) wrong += !map.find(key) || *map.find(key) != value;
    EXPECT(wrong, 0);
    EXPECT(map.find(12345678) == nullptr, true);
}

STORY("a set of ids knows its members, dense or sparse, at both ends of 64 bits") {
    IdSet set;
    std::set<uint64_t> expected;
    std::mt19937_64 random(2);
    auto insert = [&](uint64_t id) { EXPECT(set.insert(id), expected.insert(id).second); };
    for (uint64_t id = 500; id-- > 100;) insert(id);  // downwards: ranges join at their front
    for (uint64_t id = 500; id < 1000; ++id) insert(id);
    for (uint64_t last = 0; last < 70; ++last) insert(~uint64_t{0} - last);
    for (int i = 0; i < 1000; ++i) insert(random());
    insert(0), insert(0), insert(700);
    int wrong = 0;
    for (uint64_t id = 0; id < 1100; ++id) wrong += set.contains(id) != expected.contains(id);
    for (uint64_t id : expected) wrong += !set.contains(id);
    EXPECT(wrong, 0);
    EXPECT(set.contains(~uint64_t{0} - 70), false);
}

STORY("nodes become ready as what they wait for is done, the lowest id first") {
    Frontier f;
    f.add(5, Ids{});
    f.add(3, Ids{5, 5});  // an edge given twice
    f.add(9, Ids{});
    f.add(1, Ids{3, 9});
    EXPECT(f.ready_ids(), {5, 9});
    EXPECT(f.id_of(*f.take()), 5);
    EXPECT(f.children(*f.find(5)), {3});
    f.done(5);
    EXPECT(f.ready_ids(), {3, 9});
    EXPECT(f.drain(), 3);
    EXPECT(f.open(), 0);
    EXPECT(f.is_finished(1), true);
}

STORY("a dependency may come later in the file, or never") {
    Frontier f;
    f.add(1, Ids{2, 7});
    EXPECT(f.missing_count(), 2);
    f.add(2, Ids{});
    EXPECT(f.missing(10, 10)[0].id, 7);
    EXPECT(f.missing(10, 10)[0].waiters, {1});
    EXPECT(f.drain(), 1);
    f.release_missing();
    EXPECT(f.ready_ids(), {1});
}

STORY("calls that do not fit a node's state are refused and change nothing") {
    Frontier f;
    f.add(1, Ids{});
    f.add(2, Ids{1});
    REFUSES(FormatError, "node id 2 appears twice", f.add(2, Ids{}));
    REFUSES(FeedError, "cannot take node 2: it is waiting", f.take(2));
    REFUSES(FeedError, "cannot finish node 1: it is ready and not taken", f.done(1));
    REFUSES(FeedError, "cannot take node 8: it is not a node that was read", f.take(8));
    f.take(1);
    REFUSES(FeedError, "it is taken already", f.take(1));
    f.push_back(1);
    EXPECT(f.ready_ids(), {1});
    f.take();
    f.done(1);
    REFUSES(FeedError, "it is finished already", f.push_back(1));
    REFUSES(FormatError, "node id 1 appears twice", f.add(1, Ids{}));
    EXPECT(f.drain(), 1);
}

STORY("nodes that wait for each other are named from the lowest") {
    Frontier f;
    f.add(4, Ids{2});
    f.add(3, Ids{4});
    f.add(2, Ids{3});
    f.add(1, Ids{2});
    EXPECT(f.cycle(), {2, 4, 3});
    Frontier self;
    self.add(6, Ids{6});
    EXPECT(self.cycle(), {6});
}

STORY("taking out of turn leaves the rest in order, however often it happens") {
    Frontier f;
    for (uint64_t id = 0; id < 500; ++id) f.add(id, Ids{});
    for (uint64_t id = 499; id > 0; --id) {
        f.take(id);
        if (id % 3 == 0)
            f.push_back(id);
        else
            f.done(id);
    }
    Ids rest;
    while (auto slot = f.take()) {
        rest.push_back(f.id_of(*slot));
        f.done(rest.back());
    }
    EXPECT(rest.size(), 167);
    EXPECT(std::is_sorted(rest.begin(), rest.end()), true);
    EXPECT(rest[1], 3);
}

STORY("a feeder gives out every node after what it depends on") {
    std::string file = node(4, {3}) + node(1) + node(3, {1}, {2}) + node(2, {1});
    Feeder feeder(reading(file));
    EXPECT(drained(feeder), {1, 2, 3, 4});
    EXPECT(feeder.finished(), true);
    Feeder data_only(reading(file), {65536, false, false});
    data_only.take();
    data_only.done(1);
    EXPECT(data_only.ready_ids(), {2, 3});  // 3 no longer waits for 2
}

STORY("a feeder reads no further than its window, unless nothing else can run") {
    std::string file;
    for (uint64_t id = 0; id < 10; ++id) file += node(id);
    Feeder narrow(reading(file), {3});
    EXPECT(narrow.ready_ids(), {0, 1, 2});
    EXPECT(narrow.lookup(5) == nullptr, true);
    EXPECT(narrow.take()->id, 0);
    EXPECT(narrow.ready_ids(), {1, 2, 3});
    Feeder backwards(reading(node(1, {2}) + node(2, {3}) + node(3)), {1});
    EXPECT(drained(backwards), {3, 2, 1});
}

STORY("a node has the fields simulators ask for, and its attributes by name") {
    Message m;
    m.number(1, 7).text(2, "ar").number(3, 7).number(7, 12);
    m.text(10, bool_attribute("is_cpu_op", true)).text(10, int_attribute("comm_size", 1 << 20));
    m.text(10, text_attribute("pg_name", "tp")).text(10, int_attribute("comm_size", 64));
    Feeder feeder(reading(framed(m)));
    auto node = feeder.take();
    EXPECT(node->name, "ar");
    EXPECT(node->is_cpu_op, true);
    EXPECT(node->comm_size, 64);  // the last counts
    EXPECT(node->comm_src, -1);   // absent
    EXPECT(node->pg_name, "tp");
    EXPECT(node->find("pg_name")->as_text(), "tp");
    EXPECT(node->attributes().size(), 4);
}

STORY("what is missing and what goes in circles is an error, each time") {
    Feeder missing(reading(node(1, {9})));
    REFUSES(FeedError, "node 1 'n1' waits for node 9, which is not in the trace", missing.take());
    REFUSES(FeedError, "which is not in the trace", missing.finished());
    Feeder forgiving(reading(node(1, {9})), {10, true, true});
    EXPECT(drained(forgiving), {1});
    Feeder circle(reading(node(1, {2}) + node(2, {1})));
    REFUSES(FeedError, "node 1 'n1' → node 2 'n2' → node 1", circle.take());
}

STORY("a damaged trace, a window of nothing and a closed feeder are refused") {
    REFUSES(FeedError, "window must be at least 1", Feeder(reading(""), {0}));
    Feeder damaged(reading(node(1) + "\x02\x08"));
    REFUSES(FormatError, "node #2", damaged.take());
    Feeder twice(reading(node(1) + node(1)));
    REFUSES(FormatError, "node #2: node id 1 appears twice", twice.take());
    Feeder list(
        reading(framed(Message().text(10, Message().text(1, "l").text(10, "\x0a\x01\x80")))));
    REFUSES(FormatError, "an attribute's list", list.take());
    Feeder closed(reading(node(1)));
    closed.close();
    REFUSES(FeedError, "the feeder is closed", closed.take());
}
