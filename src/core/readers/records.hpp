// The list of records inside a JSON object as columns: for files of millions of small records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/interner.hpp"

namespace chakra {

// Fields that are wanted of each record, by what they are read as.
struct RecordFields {
    std::vector<std::string> numbers, reals, texts;
};

// One entry per record and field, in the order of `RecordFields`. A number that is not there, null
// or not whole is -1, a real NaN; texts are numbers of values as written (strings without quotes)
// in `table`. `rest` holds the object's other members as written.
struct Records {
    std::vector<std::vector<int64_t>> numbers;
    std::vector<std::vector<double>> reals;
    std::vector<std::vector<int32_t>> texts;
    Interner table{""};
    std::vector<std::pair<std::string, std::string_view>> rest;
};

// Throws FormatError for what is not a JSON object whose member `key`, where present, is a list of
// objects.
Records read_records(std::string_view text, std::string_view key, const RecordFields& fields);

}  // namespace chakra
