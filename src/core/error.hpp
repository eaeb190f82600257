// The exception that the core throws for input in the wrong format.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace chakra {

// `offset` is the byte of the input where the error is, or -1 if there is no such place.
class FormatError : public std::runtime_error {
   public:
    explicit FormatError(const std::string& what, int64_t offset = -1)
        : std::runtime_error(what), offset_(offset) {}
    int64_t offset() const { return offset_; }

   private:
    int64_t offset_;
};

}  // namespace chakra
