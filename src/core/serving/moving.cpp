// Caches on their way from one engine to another, or from the store that engines share.
#include <algorithm>
#include <cmath>

#include "core/serving/cluster.hpp"

namespace chakra::serving {

Time Handover::end(Time start, int64_t tokens, const Codec& codec, const Way& way) const {
    auto count = static_cast<double>(tokens);
    auto sent =
        static_cast<double>(bandwidth.end(start, count * way.ps_per_token / codec.ratio) - start);
    double encoded = count * codec.ps_per_encoded_token,
           decoded = count * codec.ps_per_decoded_token;
    return start + std::llround(in_pieces({encoded, sent, decoded}));
}

double Handover::in_pieces(std::initializer_list<double> parts) const {
    double longest = std::max(parts), sum = 0;
    for (double part : parts) sum += part;
    return longest + (sum - longest) / static_cast<double>(pieces);
}

// What blocks of the store take, by codec, at its bandwidth of now: they are sent and decoded.
double Cluster::store_work(const Options& options, const std::vector<int64_t>& blocks) const {
    double work = 0, decoded = 0;
    for (size_t c = 0; c < blocks.size(); ++c) {
        const Codec& codec = problem_.handover.codecs[c];
        auto count = static_cast<double>(blocks[c]);
        work += count * options.ps_per_remote_block / codec.ratio;
        decoded += count * static_cast<double>(options.block_size) * codec.ps_per_decoded_token;
    }
    if (work == 0) return decoded;
    if (!problem_.store_bandwidth.at.empty())
        work = static_cast<double>(problem_.store_bandwidth.end(now_, work) - now_);
    return problem_.handover.in_pieces({work, decoded});
}

const Way& Cluster::way(int32_t source, int32_t target) const {
    const Handover& how = problem_.handover;
    if (how.ways.empty()) return how.usual;
    return how.ways[pool(source) * problem_.pools.size() + pool(target)];
}

Time Cluster::link_free(int32_t source, int32_t target) const {
    return std::max({now_, out_free_.at(static_cast<size_t>(source)),
                     in_free_.at(static_cast<size_t>(target))});
}

}  // namespace chakra::serving
