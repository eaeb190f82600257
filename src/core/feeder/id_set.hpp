// A set of 64-bit ids that is small where ids are dense.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "core/feeder/id_map.hpp"

namespace chakra {

// Ids live in pages of 64 bits; a page that fills up leaves the table and becomes part of a range
// of full pages. A million consecutive ids cost one range, isolated ids 20 to 30 bytes each.
class IdSet {
   public:
    // False if the id was there already.
    bool insert(uint64_t id);
    bool contains(uint64_t id) const;

   private:
    bool in_range(uint64_t page) const;
    void fill(uint64_t page);

    static constexpr int kTableBits = 6;
    IdMap<uint64_t>& table(uint64_t page) { return pages_[table_of(page)]; }
    const IdMap<uint64_t>& table(uint64_t page) const { return pages_[table_of(page)]; }
    static size_t table_of(uint64_t page) {
        return page * uint64_t{0x9e3779b97f4a7c15} >> (64 - kTableBits);
    }

    std::array<IdMap<uint64_t>, 1 << kTableBits> pages_;
    std::map<uint64_t, uint64_t> ranges_;  // first full page -> last, with gaps between ranges
};

}  // namespace chakra
