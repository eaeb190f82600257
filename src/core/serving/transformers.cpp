// The scheduler of transformers' continuous batching: its order, its budgets, its own block
// arithmetic.
#include <algorithm>

#include "core/serving/engine.hpp"

namespace chakra::serving {

// It asks for blocks by (new - room + 1) / size + 1, which is one more than needed at times.
bool Engine::blocks_for_transformers(int32_t request, int64_t tokens) {
    Progress& p = of(request);
    int64_t room = static_cast<int64_t>(p.blocks.size()) * options_.block_size - p.scheduled;
    if (room >= tokens) return true;
    int64_t count = (tokens - room + 1) / options_.block_size + 1;
    if (count > blocks_.free()) return false;
    for (; count > 0; --count) p.blocks.push_back(blocks_.take());
    return true;
}

void Engine::transformers(Batch& batch) {
    std::vector<int32_t> candidates;
    auto pick = [&](bool decoding) {
        for (int32_t r : running_) {
            if (wanted(r) > 0 && free_to_run(r) && decodes(r) == decoding) candidates.push_back(r);
        }
    };
    pick(!options_.prefill_first);
    pick(options_.prefill_first);
    size_t active = candidates.size();
    candidates.insert(candidates.end(), waiting_.begin(), waiting_.end());

    Budget left{options_.token_budget, options_.max_requests,
                blocks_.total() * options_.block_size};
    auto margin = options_.safety_margin * static_cast<double>(blocks_.total());
    std::vector<int32_t> starved;
    for (size_t i = 0; i < candidates.size(); ++i) {
        int32_t r = candidates[i];
        Progress& p = of(r);
        bool fresh = i >= active, decoding = !fresh && decodes(r);
        if (static_cast<double>(blocks_.free()) < margin && !batch.empty() && !decoding) break;
        std::vector<int32_t> found;
        if (fresh && !p.swapped) found = prefix(r);
        int64_t have = fresh && !p.swapped
                           ? static_cast<int64_t>(found.size()) * options_.block_size
                           : p.scheduled;
        int64_t rest = requests_.prompt[static_cast<size_t>(r)] + p.expected - have;
        int64_t tokens = std::min(decoding ? 1 : rest, left.tokens);
        if (have > left.context) continue;
        if (fresh) {
            for (int32_t b : found) blocks_.hold(b);
            p.blocks = std::move(found);
            p.scheduled = p.computed = have;
        }
        if (!blocks_for_transformers(r, tokens)) {
            if (!fresh) {
                starved.push_back(r);
                continue;
            }
            give_back(r);
            if (!p.swapped) p.scheduled = p.computed = 0;
            if (blocks_.free() == 0) break;
            continue;
        }
        if (fresh) {
            std::erase(waiting_, r);
            if (p.swapped) {
                swapped_ -= blocks_of(have);
                batch.moved_blocks += blocks_of(have);
            }
            started(r, p.swapped ? 0 : have);
        }
        add(batch, r, tokens);
        left.tokens -= tokens;
        left.context -= have;
        if (--left.requests == 0 || left.tokens == 0 || left.context <= 0) break;
    }
    if (!starved.empty()) make_room(starved);
}

// Victims among those that starved, newest first, until each of the others can have a block.
void Engine::make_room(const std::vector<int32_t>& starved) {
    auto others = static_cast<int64_t>(starved.size());
    for (auto r = starved.rbegin(); r != starved.rend() && others > blocks_.free(); ++r) {
        preempt(*r);
        --others;
    }
}

}  // namespace chakra::serving
