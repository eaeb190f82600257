// An engine's memory in two parts: pages of requests' caches, and content that is found anywhere.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/serving/engine.hpp"

namespace chakra::serving {

namespace {

constexpr double REMEMBERED = 0.1;  // ghosts stand for this share of the memory

}  // namespace

// With a border that may move there are as many pages as the whole memory can hold.
Pages Engine::pages(const Options& options, uint64_t salt) const {
    Pages pages{options.num_blocks, 0, options.host_blocks, 0, salt};
    if (!hooks_.divide) return pages;
    pages.most = memory_tokens() / options.block_size;
    pages.ghosts = static_cast<int64_t>(REMEMBERED * static_cast<double>(pages.most));
    return pages;
}

int64_t remembered_tokens(const Options& options) {
    int64_t all = options.num_blocks * options.block_size + options.content_tokens;
    return static_cast<int64_t>(REMEMBERED * static_cast<double>(all));
}

// What a request that starts found in both caches; `pages_hit` tokens in pages on the device.
void Engine::count_found(int32_t request, int64_t pages_hit) {
    auto i = static_cast<size_t>(request);
    ++division_.requests;
    Found& pages = division_.pages;
    int64_t size = options_.block_size, most = (requests_.prompt[i] - 1) / size;
    int64_t block = pages_hit / size;
    pages.hits += pages_hit;
    pages.misses += most * size - pages_hit;
    for (; block < most && blocks_.left_lately(key(request, block)); ++block)
        pages.near_misses += size;
    if (requests_.content_offsets.empty()) return;
    for (auto k = requests_.content_offsets[i]; k < requests_.content_offsets[i + 1]; ++k) {
        uint64_t id = requests_.contents[static_cast<size_t>(k)];
        int64_t tokens = requests_.content_tokens[static_cast<size_t>(k)];
        const ContentStore& store = store_of(id);
        (store.has(id) ? division_.content.hits : division_.content.misses) += tokens;
        if (store.left_lately(id)) division_.content.near_misses += tokens;
    }
}

// Tokens of the longest request that is known.
int64_t Engine::longest() {
    for (; seen_ < requests_.size(); ++seen_)
        longest_ = std::max(longest_, requests_.length(static_cast<int64_t>(seen_)));
    return longest_;
}

// Moves the border to where a policy wants it; pages for the longest request always stay.
void Engine::divide() {
    double share = hooks_.divide(number_);
    division_.requests = 0;
    division_.content = division_.pages = {};
    if (share < 0) return;
    if (!(share <= 1)) throw std::out_of_range("divide gave a share that is not from 0 to 1");
    int64_t size = options_.block_size, all = memory_tokens();
    auto content = static_cast<int64_t>(share * static_cast<double>(all));
    content = std::clamp<int64_t>(content, 0, all - blocks_of(longest()) * size);
    division_.share = static_cast<double>(content) / static_cast<double>(all);
    ContentStore& store = *stores_[static_cast<size_t>(number_)];
    store.resize(content);
    blocks_.resize((all - content) / size);
    if (!options_.eager) return;
    int64_t blocks = options_.prefix_cache ? blocks_.refill() : 0, tokens = store.refill();
    division_.blocks += blocks;
    division_.tokens += tokens;
    totals_.refilled_tokens += blocks * size + tokens;
}

}  // namespace chakra::serving
