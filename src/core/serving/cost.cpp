#include "core/serving/cost.hpp"

#include <cmath>

namespace chakra::serving {

namespace {

// The cell of an axis that holds x, and how far into it x is; may lie outside of [0, 1].
std::pair<size_t, double> cell(const std::vector<double>& axis, double x) {
    if (axis.size() < 2) return {0, 0.0};
    auto above = std::upper_bound(axis.begin() + 1, axis.end() - 1, x);
    auto i = static_cast<size_t>(above - axis.begin()) - 1;
    return {i, (x - axis[i]) / (axis[i + 1] - axis[i])};
}

template <size_t N>
double interpolate(const std::array<std::vector<double>, N>& axes,
                   const std::vector<double>& values, const std::array<double, N>& point) {
    std::array<std::pair<size_t, double>, N> cells;
    for (size_t d = 0; d < N; ++d) cells[d] = cell(axes[d], point[d]);
    double sum = 0;
    for (size_t corner = 0; corner < (size_t{1} << N); ++corner) {
        double weight = 1;
        size_t place = 0;
        for (size_t d = 0; d < N; ++d) {
            bool upper = (corner >> d) & 1;
            weight *= upper ? cells[d].second : 1 - cells[d].second;
            place = place * axes[d].size() + std::min(cells[d].first + upper, axes[d].size() - 1);
        }
        if (weight != 0) sum += weight * values[place];
    }
    return sum;
}

double inside(const std::vector<double>& axis, double x) {
    return std::clamp(x, axis.front(), axis.back());
}

int64_t up_to(int64_t n, int64_t multiple, int64_t most) {
    int64_t padded = std::max<int64_t>(1, (n + multiple - 1) / multiple) * multiple;
    return most > 0 ? std::min(padded, most) : padded;
}

}  // namespace

Time Memo::operator()(int64_t n) {
    auto i = static_cast<size_t>(n);
    if (i >= known_.size()) known_.resize(std::max(i + 1, 2 * known_.size()), NEVER);
    if (known_[i] == NEVER) known_[i] = ask_(n);
    return known_[i];
}

// Keys that the queries up to a place meet, as the area under the line of keys by place.
double Reach::area(double upto) const {
    if (chunk > 0) {
        auto size = static_cast<double>(chunk);
        double whole = std::floor(upto / size), rest = upto - whole * size;
        return (whole * size * size + rest * rest) / 2;
    }
    auto step = static_cast<double>(stride), limit = static_cast<double>(most) * step;
    if (most == 0 || upto <= limit) return upto * upto / (2 * step);
    return limit * limit / (2 * step) + (upto - limit) * static_cast<double>(most);
}

double Reach::pairs(const Piece& p) const {
    auto before = static_cast<double>(p.context), all = before + static_cast<double>(p.tokens);
    if (p.tokens > 1) return area(all) - area(before);
    if (chunk > 0) return static_cast<double>(p.context % chunk + 1);
    double keys = all / static_cast<double>(stride);
    return most > 0 ? std::min(keys, static_cast<double>(most)) : keys;
}

double Reach::read(const Piece& p) const {
    if (chunk > 0) return static_cast<double>(p.context % chunk);
    double keys = static_cast<double>(p.context) / static_cast<double>(stride);
    double limit = static_cast<double>(most) * (sparse ? static_cast<double>(p.tokens) : 1.0);
    return most > 0 ? std::min(keys, limit) : keys;
}

double Reach::operator()(const Batch& batch) const {
    auto tokens = static_cast<double>(batch.sums.tokens);
    double work = tokens * work_per_token, traffic = tokens * ps_per_token;
    traffic += static_cast<double>(batch.pieces.size()) * ps_per_sequence;
    if (ps_per_pair > 0 || ps_per_context > 0) {
        for (const Piece& p : batch.pieces) {
            work += pairs(p) * ps_per_pair;
            traffic += read(p) * ps_per_context;
        }
    }
    return std::max({work, traffic, least});
}

double RooflineAttention::operator()(const Batch& batch) const {
    const Composition& c = batch.sums;
    double traffic = static_cast<double>(c.tokens) * ps_per_token +
                     static_cast<double>(c.context) * ps_per_context;
    double time = std::max({c.pairs * ps_per_pair, traffic, least});
    for (const Reach& reach : others) time += reach(batch);
    return time;
}

double GridAttention::at(double chunk, double history, double decodes, double context) const {
    return interpolate<4>(axes, values, {chunk, history, decodes, context});
}

double GridAttention::at(const Composition& c) const {
    auto chunk = static_cast<double>(c.prompt_tokens), decodes = static_cast<double>(c.decodes);
    // The context at which one chunk of all prompt tokens does as much work; below zero for
    // several.
    double history = chunk > 0 ? c.prompt_work / chunk - chunk / 2 : 0;
    if (decodes == 0) return at(chunk, history, 0, 0);
    double mean = static_cast<double>(c.decode_context) / decodes;
    auto longest = static_cast<double>(c.decode_longest);
    double even = at(chunk, history, decodes, mean);
    if (share.empty() || longest <= mean) return even;
    double uneven = at(chunk, history, decodes, longest);
    double weight = interpolate<3>(share_axes, share,
                                   {inside(share_axes[0], chunk), inside(share_axes[1], decodes),
                                    inside(share_axes[2], mean / longest)});
    return even + weight * std::max(0.0, uneven - even);
}

Cost::Cost(CostTerms terms) : terms_(std::move(terms)), dense_(terms_.dense), head_(terms_.head) {}

int64_t Cost::rounded(const Composition& c) const {
    if (c.prompts > 0) return c.tokens;
    auto size = std::lower_bound(terms_.captured.begin(), terms_.captured.end(), c.tokens);
    return size == terms_.captured.end() ? c.tokens : *size;
}

Time Cost::operator()(const Batch& batch) {
    Time time = terms(batch);
    if (!terms_.padded.ask) return time;
    int64_t& uses = padded(batch.sums).second;
    return uses++ < terms_.padded.buffers ? time + terms_.padded.capture : time;
}

Time Cost::estimate(const Batch& batch) {
    return terms(batch);
}

Time Cost::terms(const Batch& batch) {
    const Composition& c = batch.sums;
    Time extra = c.adapters * terms_.adapter + (c.decodes > 0 ? terms_.draft : 0);
    if (terms_.service) {
        auto known = served_.find(batch.kinds);
        if (known == served_.end())
            known = served_.emplace(batch.kinds, terms_.service(batch.kinds)).first;
        return known->second + extra;
    }
    if (terms_.padded.ask) return padded(c).first + extra;
    Time time = dense_(rounded(c)) + extra;
    if (c.sampled > 0) time += head_(c.sampled);
    return time + std::llround(terms_.attention(batch));
}

std::vector<std::array<int64_t, 3>> Cost::padded_steps() const {
    std::vector<std::array<int64_t, 3>> steps;
    for (const auto& [shape, cost] : shapes_)
        if (cost.second > 0) steps.push_back({shape.first, shape.second, cost.second});
    return steps;
}

// The time of a padded shape, and how often it was used.
std::pair<Time, int64_t>& Cost::padded(const Composition& c) {
    const Padded& p = terms_.padded;
    std::pair<int64_t, int64_t> shape{up_to(c.tokens, p.tokens_multiple, p.most_tokens),
                                      up_to(c.context, p.context_multiple, p.most_context)};
    auto found = shapes_.find(shape);
    if (found == shapes_.end()) {
        found =
            shapes_.emplace(shape, std::pair{p.ask(shape.first, shape.second), int64_t{0}}).first;
    }
    return found->second;
}

}  // namespace chakra::serving
