#include "core/codec/layout.hpp"

#include <algorithm>

namespace chakra {

void Layouts::clear() {
    steps_.assign(1, {});
    children_.clear();
    flags_.clear();
    offsets_.assign(1, 0);
    columns_.clear();
    members_.clear();
}

int32_t Layouts::advance(int32_t step, LayoutEntry entry, std::string_view prefix) {
    auto [it, fresh] = children_.try_emplace({step, entry.column, entry.member},
                                             static_cast<int32_t>(steps_.size()));
    if (fresh) {
        Step next;
        next.parent = step;
        next.entry = entry;
        next.prefix = prefix;
        steps_.push_back(next);
    }
    steps_[step].last = it->second;
    return it->second;
}

int32_t Layouts::finish(int32_t step, uint8_t flags) {
    int32_t& number = steps_[step].layout[flags];
    if (number >= 0) return number;
    number = static_cast<int32_t>(flags_.size());
    flags_.push_back(flags);
    size_t first = columns_.size();
    for (int32_t s = step; s != kRoot; s = steps_[s].parent) {
        columns_.push_back(steps_[s].entry.column);
        members_.push_back(steps_[s].entry.member);
    }
    std::reverse(columns_.begin() + static_cast<long>(first), columns_.end());
    std::reverse(members_.begin() + static_cast<long>(first), members_.end());
    offsets_.push_back(static_cast<int32_t>(columns_.size()));
    return number;
}

}  // namespace chakra
