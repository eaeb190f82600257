// The stream of requests, as arrays, and what is known of each while it is served.
#pragma once

#include <cstdint>
#include <vector>

namespace chakra::serving {

using Time = int64_t;  // picoseconds
inline constexpr Time NEVER = -1;

// Requests in order of arrival. `after` is a request that must end first (-1: none); `arrival` is
// then the time between its end and this one's arrival. `ids` name the content of each `unit`
// tokens of a prompt, including all that stands before it; those of request r are ids[offsets[r]] …
// offsets[r + 1].
struct Requests {
    std::vector<int64_t> arrival, prompt, output, after, priority, adapter, offsets;
    std::vector<uint64_t> ids;
    int64_t unit = 16;

    size_t size() const { return arrival.size(); }

    // The content of a prompt up to and including token `last`; 0 where nobody says.
    uint64_t key(size_t r, int64_t last) const {
        int64_t at = offsets[r] + last / unit;
        if (last >= prompt[r] || at >= offsets[r + 1]) return 0;
        return mix(ids[static_cast<size_t>(at)], static_cast<uint64_t>(last % unit));
    }

    static uint64_t mix(uint64_t a, uint64_t b) {
        uint64_t x = (a + 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull + b + 1;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
        x ^= x >> 31;
        return x == 0 ? 1 : x;
    }
};

enum class Where : int8_t { away, waiting, running, moving, done };

// A request while it is served. Tokens are `scheduled` when a step that computes them has been
// formed; `expected` output tokens are those that steps formed so far give.
struct Progress {
    int64_t scheduled = 0, computed = 0;
    int64_t generated = 0, expected = 0;
    int64_t cached = 0;
    int32_t engine = -1, epoch = 0, preempted = 0, flying = 0;
    bool swapped = false, prefilled = false;
    Where where = Where::away;
    Time arrived = NEVER, scheduled_at = NEVER, first = NEVER, last = NEVER, finished = NEVER;
    std::vector<int32_t> blocks;
};

}  // namespace chakra::serving
