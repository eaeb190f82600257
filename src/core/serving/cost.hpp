// How long a step takes: layers that depend on the number of tokens, a head, and attention.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/serving/batch.hpp"

namespace chakra::serving {

// A function of a whole number, asked once for each.
class Memo {
   public:
    explicit Memo(std::function<Time(int64_t)> ask) : ask_(std::move(ask)) {}
    Time operator()(int64_t n);

   private:
    std::function<Time(int64_t)> ask_;
    std::vector<Time> known_;
};

// Layers whose queries do not meet every earlier key. Every `stride` tokens are one key, of which a
// query meets the `most` last ones, or so many of its own choice where attention is `sparse`; with
// `chunk`, those of its chunk of tokens. A recurrence has no keys: its work grows with tokens, and
// every sequence moves a state.
struct Reach {
    int64_t most = 0, stride = 1, chunk = 0;
    bool sparse = false;
    double ps_per_pair = 0, work_per_token = 0;                        // arithmetic
    double ps_per_token = 0, ps_per_context = 0, ps_per_sequence = 0;  // traffic
    double least = 0;

    double pairs(const Piece& p) const;
    double read(const Piece& p) const;
    double area(double upto) const;
    double operator()(const Batch& batch) const;
};

// Attention as one kernel per layer at the roofline: the larger of arithmetic and traffic.
struct RooflineAttention {
    double ps_per_pair, ps_per_token, ps_per_context, least;  // layers that meet every earlier key
    std::vector<Reach> others{};
    double operator()(const Batch& batch) const;
};

// Attention as measured on a grid: prompt tokens, their context, decoding requests, their context.
// Values are linear between grid points and beyond the last two. `share` places a batch of unequal
// contexts between one with all at the mean (0) and one with all at the longest (1).
struct GridAttention {
    std::array<std::vector<double>, 4> axes;
    std::vector<double> values;
    std::array<std::vector<double>, 3>
        share_axes;  // prompt tokens, decoding requests, mean / longest
    std::vector<double> share;

    double operator()(const Batch& batch) const { return at(batch.sums); }
    double at(const Composition& c) const;
    double at(double chunk, double history, double decodes, double context) const;
};

using Attention = std::function<double(const Batch&)>;

// Steps whose shapes are padded as wholes cost what their padded shape costs. The first uses of a
// shape, one for each set of buffers, also record its graph.
struct Padded {
    int64_t tokens_multiple = 1, context_multiple = 1, most_tokens = 0, most_context = 0;
    Time capture = 0;
    int64_t buffers = 1;
    std::function<Time(int64_t, int64_t)> ask;
};

struct CostTerms {
    std::function<Time(int64_t)> dense;  // by (padded) tokens: all layers but attention
    std::function<Time(int64_t)> head;   // by sampled tokens
    Attention attention;                 // of all layers, picoseconds
    std::vector<int64_t> captured;       // sizes that decode-only steps are padded to
    Padded padded;                       // replaces all of the above where it has `ask`
    // The same for a service: by items of each kind, in order of the kinds.
    std::function<Time(const std::vector<std::pair<int64_t, int64_t>>&)> service;
    Time adapter = 0;  // for each distinct adapter of a step
    Time draft = 0;    // proposing tokens, for each decoding step
};

class Cost {
   public:
    explicit Cost(CostTerms terms);
    Time operator()(const Batch& batch);
    // The same for a step that is only thought of: it leaves nothing behind.
    Time estimate(const Batch& batch);
    bool by_kinds() const { return static_cast<bool>(terms_.service); }
    // Tokens, context and steps of every padded shape that was used; none without padding.
    std::vector<std::array<int64_t, 3>> padded_steps() const;

   private:
    Time terms(const Batch& batch);
    std::pair<Time, int64_t>& padded(const Composition& c);
    int64_t rounded(const Composition& c) const;

    CostTerms terms_;
    Memo dense_, head_;
    std::map<std::pair<int64_t, int64_t>, std::pair<Time, int64_t>> shapes_;
    std::map<std::vector<std::pair<int64_t, int64_t>>, Time> served_;
};

}  // namespace chakra::serving
