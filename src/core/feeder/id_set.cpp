#include "core/feeder/id_set.hpp"

#include <iterator>

namespace chakra {

namespace {
constexpr int kPageShift = 6;
constexpr uint64_t kFull = ~uint64_t{0};

uint64_t bit_of(uint64_t id) {
    return uint64_t{1} << (id & ((1 << kPageShift) - 1));
}
}  // namespace

bool IdSet::insert(uint64_t id) {
    uint64_t page = id >> kPageShift;
    if (in_range(page)) return false;
    uint64_t& bits = table(page)[page];
    if (bits & bit_of(id)) return false;
    bits |= bit_of(id);
    if (bits == kFull) {
        table(page).erase(page);
        fill(page);
    }
    return true;
}

bool IdSet::contains(uint64_t id) const {
    uint64_t page = id >> kPageShift;
    if (in_range(page)) return true;
    const uint64_t* bits = table(page).find(page);
    return bits && (*bits & bit_of(id));
}

bool IdSet::in_range(uint64_t page) const {
    auto next = ranges_.upper_bound(page);
    return next != ranges_.begin() && std::prev(next)->second >= page;
}

// Joins the range that ends just before, and the one that starts just after. Pages are numbers
// below 2^58, so neither neighbour overflows.
void IdSet::fill(uint64_t page) {
    auto next = ranges_.upper_bound(page);
    uint64_t last = page;
    if (next != ranges_.end() && next->first == page + 1) {
        last = next->second;
        next = ranges_.erase(next);
    }
    if (next != ranges_.begin() && std::prev(next)->second + 1 == page)
        std::prev(next)->second = last;
    else
        ranges_.emplace_hint(next, page, last);
}

}  // namespace chakra
