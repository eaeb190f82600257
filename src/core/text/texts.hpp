// Strings stored end to end in Arrow's layout: string i is bytes[offsets[i] .. offsets[i + 1]).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace chakra {

struct Texts {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> offsets{0};

    void push(std::string_view s) {
        bytes.insert(bytes.end(), s.begin(), s.end());
        offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
};

}  // namespace chakra
