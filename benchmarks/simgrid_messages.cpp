// The messages of benchmarks/messages.py in SimGrid: reads "hosts arity0 arity1 bytes_per_s latency_s", then one
// "src dst bytes" per line, all started at once; prints the time at which the last one ends.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/TCP-gamma:0");
    unsigned hosts, low, high;
    double bandwidth, latency;
    if (std::scanf("%u %u %u %lf %lf", &hosts, &low, &high, &bandwidth, &latency) != 5) return 1;
    auto netpoint = [](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        sg4::Host* host = zone->create_host("h" + std::to_string(id), 1e9)->seal();
        return std::make_pair(host->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
    };
    sg4::create_fatTree_zone("tree", nullptr, {2, {low, high}, {1, low}, {1, 1}},
                             sg4::ClusterCallbacks(netpoint), bandwidth, latency,
                             sg4::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();
    std::vector<std::pair<unsigned, unsigned>> ends;
    std::vector<double> sizes;
    unsigned src, dst;
    double size;
    while (std::scanf("%u %u %lf", &src, &dst, &size) == 3) {
        ends.emplace_back(src, dst);
        sizes.push_back(size);
    }
    sg4::Actor::create("starter", sg4::Host::by_name("h0"), [&] {
        std::vector<sg4::CommPtr> all;
        for (size_t i = 0; i < ends.size(); ++i)
            all.push_back(sg4::Comm::sendto_async(
                sg4::Host::by_name("h" + std::to_string(ends[i].first)),
                sg4::Host::by_name("h" + std::to_string(ends[i].second)),
                static_cast<uint64_t>(sizes[i])));
        sg4::Comm::wait_all(all);
        std::printf("%.9f\n", sg4::Engine::get_clock());
    });
    engine.run();
}
