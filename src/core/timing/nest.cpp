#include "core/timing/nest.hpp"

#include <algorithm>
#include <limits>

namespace chakra {

namespace {

// So many ticks after a time, or the last time there is.
int64_t later(int64_t time, int64_t ns, int64_t per_ns) {
    int64_t ticks, sum;
    bool beyond = __builtin_mul_overflow(ns, per_ns, &ticks);
    beyond = beyond || __builtin_add_overflow(time, ticks, &sum);
    return beyond ? std::numeric_limits<int64_t>::max() : sum;
}

// The end of a caller whose last row inside has its end already.
int64_t end_after(const Calls& c, int32_t caller, int32_t last, int64_t last_end) {
    int64_t tail = std::max<int64_t>(c.recorded_end[caller] - c.recorded_end[last], 0);
    int64_t until = later(last_end, tail, c.per_ns);
    int32_t next = c.follows[caller];
    bool bounded = next >= 0 && c.start[next] >= last_end;
    return bounded ? std::min(until, c.start[next]) : until;
}

}  // namespace

Nesting nest(std::span<const int32_t> thread, std::span<const int64_t> start,
             std::span<const int64_t> end, int64_t slack) {
    size_t n = thread.size();
    Nesting out{std::vector<int32_t>(n, -1), std::vector<int8_t>(n, 0)};
    std::vector<int32_t> open;
    for (size_t i = 0; i < n; ++i) {
        if (i > 0 && thread[i] != thread[i - 1]) open.clear();
        while (!open.empty() && end[open.back()] <= start[i]) open.pop_back();
        if (!open.empty()) {
            int32_t outer = open.back();
            out.parent[i] = outer;
            if (end[i] > end[outer] + slack) {
                out.astray[i] = 1;
                continue;
            }
        }
        open.push_back(static_cast<int32_t>(i));
    }
    return out;
}

std::vector<int64_t> callers_ends(const Calls& calls, std::span<const int64_t> end) {
    std::vector<int64_t> out(end.begin(), end.end());
    std::vector<int32_t> last(end.size(), -1);  // the row inside each that was recorded to end last
    auto finish = [&](int32_t row) {
        if (last[row] < 0) return;
        out[row] = std::max(out[row], end_after(calls, row, last[row], out[last[row]]));
        last[row] = -1;
    };
    for (int32_t row : calls.rows) {
        finish(row);  // all rows inside it are deeper, and done
        int32_t caller = calls.outer[row], before = last[caller];
        bool is_last = before < 0 || calls.recorded_end[row] >= calls.recorded_end[before];
        if (is_last) last[caller] = row;
        out[caller] = std::max(out[caller], out[row]);
    }
    for (int32_t row : calls.rows) finish(calls.outer[row]);
    return out;
}

}  // namespace chakra
