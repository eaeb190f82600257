// One column of a batch under construction, in Arrow's memory layout; rows never set are null.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/attribute.hpp"
#include "core/buffer.hpp"

namespace chakra {

struct Column {
    std::string name;
    Storage storage;

    size_t rows = 0;
    size_t valid_count = 0;
    Buffer<uint8_t> valid;     // bitmap
    Buffer<int64_t> words;     // kInt; kDouble as its bits; elements of their lists
    Buffer<uint8_t> flags;     // kBool, a byte each; elements of its list
    Buffer<int32_t> offsets;   // kString, kBinary and lists
    Buffer<int32_t> elements;  // kStringList, kBinaryList: offsets of the elements
    Buffer<char> text;

    Column(std::string column_name, Storage s) : name(std::move(column_name)), storage(s) {
        reset();
    }

    bool has_offsets() const { return storage >= Storage::kString; }

    void reset() {
        rows = valid_count = 0;
        valid = {};
        words = {};
        flags = {};
        offsets = {};
        elements = {};
        text = {};
        if (has_offsets()) offsets.push(0);
        if (storage >= Storage::kStringList) elements.push(0);
    }

    // Makes the column `n` rows long; the new ones are null.
    void pad_to(size_t n) {
        if (rows >= n) return;
        if (has_offsets())
            offsets.grow_to(n + 1, offsets.back());
        else if (storage == Storage::kBool)
            flags.grow_to(n, 0);
        else
            words.grow_to(n, 0);
        rows = n;
    }

    // Whether `row` may still be set (rows are set in ascending order, each once).
    bool open_at(size_t row) const { return rows <= row; }

    void set_int(size_t row, int64_t v) {
        pad_to(row);
        words.push(v);
        mark(row);
    }
    void set_double(size_t row, double v) { set_int(row, std::bit_cast<int64_t>(v)); }
    void set_bool(size_t row, bool v) {
        pad_to(row);
        flags.push(v);
        mark(row);
    }
    void set_text(size_t row, std::string_view s) {
        pad_to(row);
        text.append(s);
        offsets.push(static_cast<int32_t>(text.size()));
        mark(row);
    }

    // Lists: push elements, then close the row.
    void open_list(size_t row) { pad_to(row); }
    void push_text(std::string_view s) {
        text.append(s);
        elements.push(static_cast<int32_t>(text.size()));
    }
    void close_list(size_t row) {
        size_t n = storage >= Storage::kStringList ? elements.size() - 1
                   : storage == Storage::kBoolList ? flags.size()
                                                   : words.size();
        offsets.push(static_cast<int32_t>(n));
        mark(row);
    }
    // Forgets elements pushed since the last closed row.
    void abandon_list() {
        size_t n = static_cast<size_t>(offsets.back());
        if (storage == Storage::kBoolList) {
            flags.truncate(n);
        } else if (storage >= Storage::kStringList) {
            elements.truncate(n + 1);
            text.truncate(static_cast<size_t>(elements.back()));
        } else {
            words.truncate(n);
        }
    }

   private:
    void mark(size_t row) {
        valid.grow_to(row / 8 + 1, 0);
        valid[row / 8] |= static_cast<uint8_t>(1u << (row % 8));
        ++valid_count;
        rows = row + 1;
    }
};

}  // namespace chakra
