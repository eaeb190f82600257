// Validation of UTF-8, which protobuf and Arrow both require of their strings.
#pragma once

#include <string_view>

namespace chakra {

bool is_utf8(std::string_view s);

}  // namespace chakra
