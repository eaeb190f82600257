// Strings kept once: what a column of repeated text is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace chakra {

// Text laid end to end, as Arrow wants it: string i is bytes[offsets[i], offsets[i + 1]).
struct Texts {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> offsets{0};

    void push(std::string_view s) {
        bytes.insert(bytes.end(), s.begin(), s.end());
        offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
    int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

// Numbers strings in the order they first appear; number 0 is always the empty string.
// The views used as keys must outlive the interner, or be given to `add_owned`.
class Interner {
   public:
    Interner() { add(""); }

    int32_t add(std::string_view s) {
        auto [it, fresh] = index_.try_emplace(s, static_cast<int32_t>(texts_.size()));
        if (fresh) texts_.push(s);
        return it->second;
    }

    int32_t add_owned(std::string s) {
        auto it = index_.find(s);
        if (it != index_.end()) return it->second;
        owned_.push_back(std::make_unique<std::string>(std::move(s)));
        return add(*owned_.back());
    }

    Texts& texts() { return texts_; }

   private:
    std::unordered_map<std::string_view, int32_t> index_;
    std::vector<std::unique_ptr<std::string>> owned_;
    Texts texts_;
};

}  // namespace chakra
