// Writes messages of the schema as JSON text without loss: what JSON cannot hold is base64 under
// "raw" or "unknown".
#pragma once

#include <string_view>

#include "core/memory/buffer.hpp"
#include "core/wire/wire.hpp"

namespace chakra {

// Varint-delimited Nodes as JSON objects, ",\n" between them (and before the first unless `first`).
void json_nodes(std::string_view frames, bool first, Buffer<char>& out);

// A GlobalMetadata message as one JSON object.
void json_metadata(std::string_view message, Buffer<char>& out);

}  // namespace chakra
