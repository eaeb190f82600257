// One step of an engine: which tokens of which requests it computes, and the sums its time depends
// on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/serving/requests.hpp"

namespace chakra::serving {

// `tokens` new tokens of a request on top of `context` ones; `gives` output tokens come of it.
struct Piece {
    int32_t request, epoch;
    int64_t tokens, context;
    int32_t gives;
    bool decodes;
};

// What a step's time is a function of. Prompt pieces and decoding ones are kept apart.
struct Composition {
    int64_t tokens = 0, sampled = 0, context = 0;
    int64_t prompts = 0, prompt_tokens = 0;
    double prompt_work = 0;  // sum of tokens × (context + tokens / 2)
    int64_t decodes = 0, decode_tokens = 0, decode_context = 0, decode_longest = 0;
    double pairs = 0;  // queries × keys under a causal mask
    int64_t adapters = 0;

    void add(const Piece& p) {
        tokens += p.tokens;
        sampled += p.gives > 0 ? (p.decodes ? p.tokens : 1) : 0;
        context += p.context;
        double q = static_cast<double>(p.tokens), k = static_cast<double>(p.context);
        pairs += p.tokens == 1 ? k + 1 : q * q / 2 + q * k;
        if (p.decodes) {
            ++decodes;
            decode_tokens += p.tokens;
            decode_context += p.context;
            decode_longest = std::max(decode_longest, p.context);
        } else {
            ++prompts;
            prompt_tokens += p.tokens;
            prompt_work += q * (k + q / 2);
        }
    }
};

struct Batch {
    std::vector<Piece> pieces;
    Composition sums;
    Time formed = 0, start = 0, end = 0;
    int64_t moved_blocks = 0;       // between device and host, before the step can run
    std::vector<int64_t> stored{};  // blocks from the store that engines share, by codec
    int64_t rotated_tokens = 0, fetched_tokens = 0;  // content put at another place; from elsewhere
    std::vector<std::pair<int64_t, int64_t>> kinds{};  // kind and items, where a service asks

    bool empty() const { return pieces.empty(); }
    void add(const Piece& p) {
        pieces.push_back(p);
        sums.add(p);
    }
};

}  // namespace chakra::serving
