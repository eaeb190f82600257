// The errors of ASTRA-sim mode: an input that cannot be run, or work that waits for something that
// never comes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace chakra::astra {

// `deadlock` is true when the input is well formed but some rank never finishes.
class SimulationError : public std::runtime_error {
   public:
    explicit SimulationError(const std::string& what, bool deadlock = false)
        : std::runtime_error(what), deadlock_(deadlock) {}
    bool deadlock() const { return deadlock_; }

   private:
    bool deadlock_;
};

// Nanoseconds as ticks, rounded down. Half of the range stays free, so that a tick plus a time
// never overflows.
constexpr int64_t kMaxTick = INT64_MAX / 2;
inline int64_t whole_ticks(double ns) {
    if (!(ns < static_cast<double>(kMaxTick))) {
        throw SimulationError("a time of " + std::to_string(ns) +
                              " ns is too long; check bandwidths, latencies and sizes");
    }
    return static_cast<int64_t>(ns);
}

// Folding cannot prove that equal ranks stay equal. Not an error: the run is repeated unfolded.
class NotFoldable : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
};

}  // namespace chakra::astra
