// Is this text UTF-8? Protobuf strings must be, and so must Arrow's.
#pragma once

#include <string_view>

namespace chakra {

bool is_utf8(std::string_view s);

}  // namespace chakra
