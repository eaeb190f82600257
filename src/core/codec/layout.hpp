// A layout says which attributes a row has, in which order and in which oneof members. A trace has
// a handful of distinct ones.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

namespace chakra {

// An attribute column number, or kRaw for one kept as bytes (then member is 0).
struct LayoutEntry {
    static constexpr int32_t kRaw = -1;
    int32_t column;
    int8_t member;
    bool operator==(const LayoutEntry&) const = default;
};

// A trie over entries. Walking it while a node is read costs one comparison per attribute as long
// as nodes look alike, and ends at the number of the layout.
class Layouts {
   public:
    static constexpr uint8_t kHasInputs = 1, kHasOutputs = 2;
    static constexpr int32_t kRoot = 0;

    Layouts() { clear(); }

    // Forgets all layouts; numbers start at 0 again.
    void clear();

    // The child that was reached last, or -1 if there is none yet: the guess for the next node.
    int32_t guess(int32_t step) const { return steps_[step].last; }
    const LayoutEntry& entry(int32_t step) const { return steps_[step].entry; }
    // The bytes an attribute of this step's entry starts with; empty for a raw one.
    std::string_view prefix(int32_t step) const { return steps_[step].prefix; }

    // The child of `step` for this entry. `prefix` must outlive this object.
    int32_t advance(int32_t step, LayoutEntry entry, std::string_view prefix);

    // The number of the layout that ends at `step`.
    int32_t finish(int32_t step, uint8_t flags);

    // All layouts as flat arrays: the entries of layout i are [offsets[i] .. offsets[i + 1]).
    const std::vector<uint8_t>& flags() const { return flags_; }
    const std::vector<int32_t>& offsets() const { return offsets_; }
    const std::vector<int32_t>& columns() const { return columns_; }
    const std::vector<int8_t>& members() const { return members_; }

   private:
    struct Step {
        int32_t parent = -1;
        LayoutEntry entry{LayoutEntry::kRaw, 0};
        std::string_view prefix;
        int32_t last = -1;
        int32_t layout[4] = {-1, -1, -1, -1};
    };
    std::vector<Step> steps_;
    std::map<std::tuple<int32_t, int32_t, int8_t>, int32_t> children_;
    std::vector<uint8_t> flags_;
    std::vector<int32_t> offsets_;
    std::vector<int32_t> columns_;
    std::vector<int8_t> members_;
};

}  // namespace chakra
