// Encodes columns as .et bytes in the canonical encoding: fields in ascending order, attributes in
// the order of the layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/back_writer.hpp"
#include "core/wire/member.hpp"

namespace chakra {

// A column of text or bytes in Arrow's layout. Without a bitmap no row is null.
struct TextColumn {
    const int32_t* offsets = nullptr;  // nullptr if the column is absent
    const char* text = nullptr;
    const uint8_t* valid = nullptr;
    int64_t valid_offset = 0;

    bool has(size_t row) const {
        if (offsets == nullptr) return false;
        size_t bit = row + static_cast<size_t>(valid_offset);
        return valid == nullptr || (valid[bit / 8] >> (bit % 8) & 1);
    }
    std::string_view at(size_t row) const {
        return {text + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
    }
};

struct ValueColumn {
    std::string name;
    Storage storage = Storage::kInt;
    const int64_t* words = nullptr;
    const uint8_t* flags = nullptr;    // one byte each
    const int32_t* offsets = nullptr;  // text and lists
    const int32_t* elements = nullptr;
    const char* text = nullptr;

    std::string_view text_at(size_t row) const {
        return {text + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
    }
    // Of a list of texts.
    std::string_view element(int32_t i) const {
        return {text + elements[i], static_cast<size_t>(elements[i + 1] - elements[i])};
    }
};

struct IdLists {
    const int32_t* offsets;
    const uint64_t* ids;
    std::span<const uint64_t> at(size_t row) const {
        return {ids + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
    }
};

struct LayoutTable {
    const uint8_t* flags;
    const int32_t* offsets;
    const int32_t* columns;
    const int8_t* members;
};

struct EncodeInput {
    size_t rows = 0;
    const uint64_t *id, *start, *duration;
    const int32_t *name, *type, *layout;
    TextColumn names;
    IdLists ctrl, data;
    TextColumn io[8];
    TextColumn io_unknown[2];
    TextColumn raw, unknown;
    LayoutTable layouts;
    std::vector<ValueColumn> attributes;
};

// An estimate of how many bytes encode() will write, to start with enough room.
size_t likely_size(const EncodeInput& in);

// The layout must name only attributes that are not null in their row.
void encode(const EncodeInput& in, BackWriter& out);

}  // namespace chakra
