// The one exception the core throws for input that is not what it should be.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace chakra {

// `offset` is the byte in the input where the trouble starts, or -1 where there is no such place.
class FormatError : public std::runtime_error {
   public:
    explicit FormatError(const std::string& what, int64_t offset = -1)
        : std::runtime_error(what), offset_(offset) {}
    int64_t offset() const { return offset_; }

   private:
    int64_t offset_;
};

}  // namespace chakra
