// The stream of requests, as arrays, and what is known of each while it is served.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace chakra::serving {

using Time = int64_t;  // picoseconds
inline constexpr Time NEVER = -1;

// Requests in order of arrival. `after` has `parents` entries for each: requests that must all end
// first (-1: none); `arrival` is then the time between the last of their ends and this one's
// arrival. `ids` name the content of each `unit` tokens of a prompt, including all that stands
// before it; those of request r are ids[offsets[r]] … offsets[r + 1]. A prompt that `continues`
// another request begins with that one's prompt and output. These may be empty, for all requests
// alike: `continues`, `group`, `deadline` (after the arrival of the group's first), `model`,
// `tenant`.
struct Requests {
    std::vector<int64_t> arrival, prompt, output, after, priority, adapter, offsets;
    std::vector<uint64_t> ids;
    int64_t unit = 16;
    std::vector<int64_t> continues, group, deadline, model, tenant;
    int64_t parents = 1;
    // A prompt as pieces of content that may stand anywhere: contents[content_offsets[r]] … with
    // their tokens. May be empty, as above.
    std::vector<uint64_t> contents;
    std::vector<int64_t> content_tokens, content_offsets;
    int64_t first = 0;   // the number of the first one, where they join others
    bool grows = false;  // a source may add to them

    size_t size() const { return arrival.size(); }
    // Whether it waits for others to end.
    bool follows(size_t r) const {
        auto from = after.begin() + static_cast<int64_t>(r) * parents;
        return std::any_of(from, from + parents, [](int64_t a) { return a >= 0; });
    }
    // Whether requests may find what another one has said, though nobody names it.
    bool inherited() const { return grows || !continues.empty(); }
    // The request whose tokens stand at this place: its own, or one that it continues.
    size_t origin(size_t r, int64_t place) const {
        if (continues.empty()) return r;
        for (int64_t p = continues[r]; p >= 0 && place < length(p); p = continues[r])
            r = static_cast<size_t>(p);
        return r;
    }
    int64_t length(int64_t r) const {
        return prompt[static_cast<size_t>(r)] + output[static_cast<size_t>(r)];
    }
    static int64_t or_none(const std::vector<int64_t>& column, size_t r) {
        return column.empty() ? -1 : column[r];
    }
    // More requests, which have the numbers after those that are there.
    void append(const Requests& more);

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
    int64_t coming = 0;  // tokens on their way to another engine
    int32_t engine = -1, epoch = 0, preempted = 0, flying = 0;
    bool swapped = false, prefilled = false;
    Where where = Where::away;
    Time arrived = NEVER, scheduled_at = NEVER, first = NEVER, last = NEVER, finished = NEVER;
    std::vector<int32_t> blocks;
};

}  // namespace chakra::serving
