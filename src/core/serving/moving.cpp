// Caches on their way from one engine to another.
#include <algorithm>
#include <cmath>

#include "core/serving/cluster.hpp"

namespace chakra::serving {

Time Handover::end(Time start, int64_t tokens, const Codec& codec) const {
    auto count = static_cast<double>(tokens);
    auto sent =
        static_cast<double>(bandwidth.end(start, count * ps_per_token / codec.ratio) - start);
    double encoded = count * codec.ps_per_encoded_token,
           decoded = count * codec.ps_per_decoded_token;
    double longest = std::max({encoded, sent, decoded});
    double others = encoded + sent + decoded - longest;
    return start + std::llround(longest + others / static_cast<double>(pieces));
}

Time Cluster::link_free(int32_t source, int32_t target) const {
    return std::max({now_, out_free_.at(static_cast<size_t>(source)),
                     in_free_.at(static_cast<size_t>(target))});
}

}  // namespace chakra::serving
