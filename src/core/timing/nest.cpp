#include "core/timing/nest.hpp"

namespace chakra {

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

}  // namespace chakra
