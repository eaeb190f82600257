// The messages of benchmarks/messages.py in SimGrid: reads "at-once" or "in-turn", then "hosts arity0 arity1
// bytes_per_s latency_s", then one "src dst bytes" per line. At once all messages start together; in turn every host
// sends its own one after another. Prints the time at which the last one ends.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Message {
    unsigned src, dst;
    double size;
};

static std::vector<sg4::Host*> hosts;

static sg4::CommPtr send(const Message& m) {
    return sg4::Comm::sendto_async(hosts[m.src], hosts[m.dst], static_cast<uint64_t>(m.size));
}

static void fat_tree(unsigned low, unsigned high, double bandwidth, double latency) {
    auto netpoint = [](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        hosts.push_back(zone->create_host("h" + std::to_string(id), 1e9)->seal());
        return std::make_pair(hosts.back()->get_netpoint(),
                              static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
    };
    sg4::create_fatTree_zone("tree", nullptr, {2, {low, high}, {1, low}, {1, 1}},
                             sg4::ClusterCallbacks(netpoint), bandwidth, latency,
                             sg4::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();
}

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("contexts/stack-size:32");  // KiB: a thousand small actors
    char order[16];
    unsigned count, low, high;
    double bandwidth, latency;
    if (std::scanf("%15s %u %u %u %lf %lf", order, &count, &low, &high, &bandwidth, &latency) != 6)
        return 1;
    fat_tree(low, high, bandwidth, latency);
    std::vector<Message> messages;
    std::vector<std::vector<size_t>> own(count);
    for (Message m; std::scanf("%u %u %lf", &m.src, &m.dst, &m.size) == 3;) {
        own[m.src].push_back(messages.size());
        messages.push_back(m);
    }
    if (!std::strcmp(order, "at-once"))
        sg4::Actor::create("starter", hosts[0], [&] {
            std::vector<sg4::CommPtr> all;
            for (const Message& m : messages) all.push_back(send(m));
            sg4::Comm::wait_all(all);
        });
    else
        for (unsigned h = 0; h < count; ++h)
            sg4::Actor::create("sender", hosts[h], [&, h] {
                for (size_t i : own[h]) send(messages[i])->wait();
            });
    engine.run();
    std::printf("%.9f\n", sg4::Engine::get_clock());
}
