#include "core/text/interner.hpp"

#include <random>

namespace chakra {

namespace {

uint64_t process_seed() {
    static const uint64_t seed = [] {
        std::random_device device;
        return static_cast<uint64_t>(device()) << 32 | device();
    }();
    return seed;
}

// Both halves of a 128-bit product, folded: every input bit reaches every output bit.
uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load(const char* p, size_t n) {
    uint64_t v = 0;
    std::memcpy(&v, p, n);
    return v;
}

constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15u;
constexpr uint64_t kOdd2 = 0xd1b54a32d192ed03u;

}  // namespace

uint64_t hash_bytes(std::string_view s) {
    uint64_t h = process_seed() ^ mix(s.size() + kOdd1, kOdd2);
    const char* p = s.data();
    size_t n = s.size();
    for (; n >= 16; p += 16, n -= 16) h = mix(h ^ load(p, 8) ^ kOdd1, load(p + 8, 8) ^ kOdd2);
    if (n >= 8) {
        h = mix(h ^ load(p, 8), kOdd1);
        p += 8;
        n -= 8;
    }
    if (n) h = mix(h ^ load(p, n), kOdd2);
    return mix(h, kOdd1);
}

void Interner::clear() {
    slots_.assign(64, {0, -1});
    offsets_.clear();
    offsets_.push(0);
    text_.clear();
}

size_t Interner::slot_of(std::string_view s, uint64_t hash) const {
    size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    while (slots_[i].index >= 0) {
        std::string_view known = (*this)[slots_[i].index];
        if (slots_[i].hash == hash && known.size() == s.size() &&
            equal_short(known.data(), s.data(), s.size()))
            break;
        i = (i + 1) & mask;
    }
    return i;
}

int32_t Interner::find(std::string_view s) const {
    return slots_[slot_of(s, hash_bytes(s))].index;
}

int32_t Interner::intern(std::string_view s, bool& fresh) {
    uint64_t hash = hash_bytes(s);
    size_t i = slot_of(s, hash);
    fresh = slots_[i].index < 0;
    if (!fresh) return slots_[i].index;
    int32_t index = size();
    slots_[i] = {hash, index};
    text_.append(s);
    offsets_.push(static_cast<int64_t>(text_.size()));
    if (static_cast<size_t>(size()) * 2 > slots_.size()) grow();
    return index;
}

void Interner::grow() {
    std::vector<Slot> old(slots_.size() * 2, {0, -1});
    old.swap(slots_);
    size_t mask = slots_.size() - 1;
    for (const Slot& s : old) {
        if (s.index < 0) continue;
        size_t i = s.hash & mask;
        while (slots_[i].index >= 0) i = (i + 1) & mask;
        slots_[i] = s;
    }
}

}  // namespace chakra
