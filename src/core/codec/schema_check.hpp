// Messages of the schema, checked without keeping anything of them.
#pragma once

#include <string_view>

#include "core/wire/wire.hpp"

namespace chakra {

// Throw FormatError where the message is not what its name says.
void check_attribute(wire::Cursor c);
void check_metadata(wire::Cursor c);

// Throws FormatError, "`what` is not UTF-8", with the place of `s` counted from the cursor's
// origin.
void require_utf8(const wire::Cursor& c, std::string_view s, const char* what);

// Whether the first message of a file is a Node, since some writers leave the metadata out. Field 1
// decides: it is a number in a Node and text in the metadata. A Node with id 0 lacks it; then field
// 2 decides, which is a name in a Node and an attribute in the metadata.
bool is_node(wire::Cursor c);

// Field 4 of IOInfo is `strides` in some variants of the schema and unknown to the others. Text
// that would not be written back the same (it is not UTF-8, empty, given twice, or follows
// something unknown) stays unknown. `strides` and `unknown` are what the message has said so far.
bool is_strides(std::string_view text, std::string_view strides, std::string_view unknown);

}  // namespace chakra
