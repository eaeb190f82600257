#include "core/serving/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace chakra::serving {

namespace {

constexpr int64_t MOST =
    std::numeric_limits<int32_t>::max() - 1;  // requests and blocks are 31 bits

[[noreturn]] void fail(const std::string& what) {
    throw std::invalid_argument(what);
}

void within(const char* name, int64_t value, int64_t least, int64_t most = MOST) {
    if (value >= least && value <= most) return;
    fail(std::string(name) + " is " + std::to_string(value) + "; it must be from " +
         std::to_string(least) + " to " + std::to_string(most));
}

void not_negative(const char* name, double value) {
    if (std::isfinite(value) && value >= 0) return;
    fail(std::string(name) + " is " + std::to_string(value) +
         "; it must be a finite number, 0 or more");
}

void each(const char* name, const std::vector<int64_t>& values, size_t count, int64_t least) {
    if (values.size() != count)
        fail(std::string(name) + " has " + std::to_string(values.size()) + " entries; there are " +
             std::to_string(count) + " requests");
    auto bad = std::find_if(values.begin(), values.end(), [=](int64_t v) { return v < least; });
    if (bad == values.end()) return;
    fail(std::string(name) + "[" + std::to_string(bad - values.begin()) + "] is " +
         std::to_string(*bad) + "; it must be " + std::to_string(least) + " or more");
}

void earlier(const char* name, size_t i, int64_t value, int64_t before, const char* verb) {
    if (value < before) return;
    fail(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(value) +
         "; a request " + verb + " one that stands before it");
}

template <size_t N>
void fits(const char* name, const std::array<std::vector<double>, N>& axes,
          const std::vector<double>& values) {
    size_t cells = 1;
    for (const auto& axis : axes) {
        if (axis.empty() || !std::is_sorted(axis.begin(), axis.end(), std::less_equal<>()))
            fail(std::string(name) + ": an axis is empty or does not ascend");
        cells *= axis.size();
    }
    if (values.size() != cells)
        fail(std::string(name) + " has " + std::to_string(values.size()) +
             " values; its axes have " + std::to_string(cells) + " points");
}

}  // namespace

namespace {

void check_contents(const Requests& r, size_t count) {
    if (r.content_offsets.empty() && r.contents.empty() && r.content_tokens.empty()) return;
    each("content_tokens", r.content_tokens, r.contents.size(), 1);
    bool ascend = r.content_offsets.size() == count + 1 && r.content_offsets.front() == 0 &&
                  std::is_sorted(r.content_offsets.begin(), r.content_offsets.end()) &&
                  r.content_offsets.back() == static_cast<int64_t>(r.contents.size());
    if (!ascend)
        fail("content_offsets must begin with 0, never descend, and end with the contents");
    for (size_t i = 0; i < count; ++i) {
        int64_t sum = 0;
        for (auto k = r.content_offsets[i]; k < r.content_offsets[i + 1]; ++k)
            sum += r.content_tokens[static_cast<size_t>(k)];
        if (sum > r.prompt[i])
            fail("the contents of request " + std::to_string(i) + " have " + std::to_string(sum) +
                 " tokens; its prompt has " + std::to_string(r.prompt[i]));
    }
}

void check_bandwidth(const char* name, const Bandwidth& b) {
    bool rises = std::is_sorted(b.at.begin(), b.at.end(), std::less_equal<>());
    if (b.at.size() != b.factor.size() || !rises)
        fail(std::string(name) + ": changes have a time and a factor each, in order");
    for (double factor : b.factor) not_negative(name, factor);
    if (!b.factor.empty() && b.factor.back() == 0)
        fail(std::string(name) + ": the last change leaves no bandwidth for ever");
}

}  // namespace

void check(const Requests& r) {
    size_t count = r.arrival.size();
    within("the number of requests", static_cast<int64_t>(count), 0);
    within("parents", r.parents, 1);
    each("arrival", r.arrival, count, 0);
    each("prompt", r.prompt, count, 1);
    each("output", r.output, count, 1);
    each("after", r.after, count * static_cast<size_t>(r.parents), -1);
    each("priority", r.priority, count, std::numeric_limits<int64_t>::min());
    each("adapter", r.adapter, count, -1);
    for (auto [name, column] : {std::pair{"continues", &r.continues},
                                {"group", &r.group},
                                {"deadline", &r.deadline},
                                {"model", &r.model},
                                {"tenant", &r.tenant}})
        if (!column->empty()) each(name, *column, count, -1);
    for (size_t i = 0; i < count; ++i) {
        auto before = static_cast<int64_t>(i) + r.first;
        for (size_t k = i * static_cast<size_t>(r.parents);
             k < (i + 1) * static_cast<size_t>(r.parents); ++k)
            earlier("after", i, r.after[k], before, "follows");
        if (!r.continues.empty()) earlier("continues", i, r.continues[i], before, "continues");
    }
    bool ascend = r.offsets.size() == count + 1 && r.offsets.front() == 0 &&
                  std::is_sorted(r.offsets.begin(), r.offsets.end()) &&
                  r.offsets.back() == static_cast<int64_t>(r.ids.size());
    if (!ascend)
        fail(
            "offsets must have one entry more than there are requests, begin with 0, never "
            "descend, "
            "and end with the number of ids");
    within("unit", r.unit, 1);
    check_contents(r, count);
}

void check(const Options& o) {
    within("block_size", o.block_size, 1);
    within("num_blocks", o.num_blocks, 1);
    within("token_budget", o.token_budget, 1, std::numeric_limits<int64_t>::max());
    within("max_requests", o.max_requests, 1, std::numeric_limits<int64_t>::max());
    within("depth", o.depth, 1);
    within("stages", o.stages, 1);
    for (auto [name, value] : {std::pair{"chunk_limit", o.chunk_limit},
                               {"swap_blocks", o.swap_blocks},
                               {"host_blocks", o.host_blocks},
                               {"drafts", o.drafts},
                               {"gather_steps", o.gather_steps},
                               {"balance_steps", o.balance_steps},
                               {"look_steps", o.look_steps},
                               {"content_tokens", o.content_tokens},
                               {"divide_every", o.divide_every},
                               {"max_adapters", o.max_adapters}})
        within(name, value, 0);
    for (auto [name, value] : {std::pair{"host", o.host},
                               {"host_per_request", o.host_per_request},
                               {"host_per_token", o.host_per_token},
                               {"output", o.output},
                               {"launch", o.launch},
                               {"prompt_launch", o.prompt_launch},
                               {"warmup", o.warmup},
                               {"serial", o.serial},
                               {"serial_per_request", o.serial_per_request},
                               {"frontend", o.frontend}})
        within(name, value, 0, std::numeric_limits<int64_t>::max());
    for (auto [name, value] : {std::pair{"safety_margin", o.safety_margin},
                               {"output_reserve", o.output_reserve},
                               {"gather_share", o.gather_share},
                               {"ps_per_block", o.ps_per_block},
                               {"ps_per_remote_block", o.ps_per_remote_block},
                               {"ps_per_rotated_token", o.ps_per_rotated_token},
                               {"ps_per_fetched_token", o.ps_per_fetched_token},
                               {"recomputed", o.recomputed},
                               {"acceptance", o.acceptance}})
        not_negative(name, value);
}

void check(const GridAttention& grid) {
    fits("attention", grid.axes, grid.values);
    if (!grid.share.empty()) fits("skew", grid.share_axes, grid.share);
}

void check(const Problem& problem) {
    if (!problem.requests || (problem.requests->size() == 0 && !problem.hooks.next))
        fail("there are no requests");
    if (problem.pools.empty()) fail("there are no engines");
    int64_t engines = 0;
    for (const Pool& pool : problem.pools) {
        check(pool.options);
        within("ranks", pool.ranks, 1);
        within("engines", pool.engines, 1);
        if (pool.engines % pool.ranks)
            fail("engines must be a multiple of the ranks that step together");
        if (!pool.terms.padded.ask && !pool.terms.service &&
            !(pool.terms.dense && pool.terms.head && pool.terms.attention))
            fail("a pool has no step times");
        engines += pool.engines;
    }
    for (const Fault& fault : problem.faults) {
        within("a fault's engine", fault.engine, 0, engines - 1);
        within("a fault's time", fault.at, 0, std::numeric_limits<int64_t>::max());
        within("a fault's duration", fault.duration, 0, std::numeric_limits<int64_t>::max());
    }
    for (const RankFault& fault : problem.rank_faults) {
        within("a failing rank", fault.engine, 0, engines - 1);
        for (auto [name, value] : {std::pair{"its time", fault.at},
                                   {"its pause", fault.pause},
                                   {"its absence", fault.away},
                                   {"the pause at its return", fault.back_pause}})
            within(name, value, 0, std::numeric_limits<int64_t>::max());
    }
    for (auto [a, b] : problem.share_devices) {
        within("an engine that shares devices", a, 0, engines - 1);
        within("an engine that shares devices", b, 0, engines - 1);
    }
    check_bandwidth("the links' schedule", problem.handover.bandwidth);
    check_bandwidth("the store's schedule", problem.store_bandwidth);
    if (problem.handover.codecs.empty()) fail("there is no way to send a cache");
    for (const Codec& codec : problem.handover.codecs) {
        not_negative("a codec's encoding", codec.ps_per_encoded_token);
        not_negative("a codec's decoding", codec.ps_per_decoded_token);
        if (!(codec.ratio > 0)) fail("a codec's ratio must be above 0");
    }
    within("a move's pieces", problem.handover.pieces, 1);
    within("concurrency", problem.concurrency, 0);
    within("remote_blocks", problem.remote_blocks, 0);
    not_negative("handover", problem.handover.usual.ps_per_token);
    size_t pairs = problem.pools.size() * problem.pools.size();
    if (!problem.handover.ways.empty() && problem.handover.ways.size() != pairs)
        fail("moves between pools need a way for every pair of them");
    for (const Way& way : problem.handover.ways) {
        not_negative("a way between pools", way.ps_per_token);
        within("its latency", way.latency, 0);
    }
}

}  // namespace chakra::serving
