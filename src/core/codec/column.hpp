// One column of a batch under construction, in Arrow's memory layout; rows never set are null.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/memory/buffer.hpp"
#include "core/text/utf8.hpp"
#include "core/wire/member.hpp"

namespace chakra {

struct Column {
    std::string name;
    Storage storage;

    size_t rows = 0;
    size_t valid_count = 0;
    Buffer<uint8_t> valid;     // bitmap; empty as long as no row is null
    Buffer<int64_t> words;     // kInt; kDouble as its bits; elements of their lists
    Buffer<uint8_t> flags;     // kBool, one byte each; elements of its list
    Buffer<int32_t> offsets;   // kString, kBinary and lists
    Buffer<int32_t> elements;  // kStringList, kBinaryList: offsets of the elements
    Buffer<char> text;

    Column(std::string column_name, Storage s) : name(std::move(column_name)), storage(s) {
        reset();
    }

    bool has_offsets() const { return storage >= Storage::kString; }

    // Starts a new batch and reserves as much room as the last one took.
    void reset() {
        rows = valid_count = 0;
        valid = {};
        renew(words, used_.words);
        renew(flags, used_.flags);
        renew(offsets, used_.offsets);
        renew(elements, used_.elements);
        renew(text, used_.text);
        if (has_offsets()) offsets.push(0);
        if (storage >= Storage::kStringList) elements.push(0);
    }

    // Makes the column `n` rows long; the new ones are null.
    void pad_to(size_t n) {
        if (rows >= n) return;
        if (valid_count == rows) valid.grow_to((rows + 7) / 8, 0xff);  // all before are valid
        valid.grow_to((n + 7) / 8, 0);
        for (size_t i = rows; i < n && i % 8; ++i)
            valid[i / 8] &= static_cast<uint8_t>(~(1u << i % 8));
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
        close_text(row);
    }
    // The same for text that must be UTF-8: if it is not, returns false and sets nothing.
    bool set_utf8(size_t row, std::string_view s) {
        pad_to(row);
        if (!text.append_scanned(s) && !is_utf8(s)) {
            text.truncate(text.size() - s.size());
            return false;
        }
        close_text(row);
        return true;
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

    // Remembers how large this batch became. Call before the buffers are handed on.
    void note_size() {
        used_ = {words.size(), flags.size(), offsets.size(), elements.size(), text.size()};
    }

   private:
    struct Sizes {
        size_t words = 0, flags = 0, offsets = 0, elements = 0, text = 0;
    };

    template <class T>
    static void renew(Buffer<T>& b, size_t room) {
        b.clear();
        if (room) b.reserve(room + room / 16);
    }

    void close_text(size_t row) {
        offsets.push(static_cast<int32_t>(text.size()));
        mark(row);
    }

    void mark(size_t row) {
        if (!valid.empty()) {
            valid.grow_to(row / 8 + 1, 0);
            valid[row / 8] |= static_cast<uint8_t>(1u << (row % 8));
        }
        ++valid_count;
        rows = row + 1;
    }

    Sizes used_;
};

}  // namespace chakra
