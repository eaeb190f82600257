// Pickles of plain data as JSON text, without Python's unpickler: nothing in a file can name code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace chakra {

// The value of a pickle made of None, booleans, numbers, texts, lists, tuples, sets and
// dictionaries. Keys in `skip` are left out. Throws FormatError for a damaged file,
// for any opcode that names a class, calls something or refers to the outside, and for a value that
// holds itself.
std::string pickle_to_json(std::string_view data, const std::vector<std::string>& skip);

}  // namespace chakra
