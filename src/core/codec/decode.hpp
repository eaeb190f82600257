// Decodes .et bytes into columns: varint-delimited GlobalMetadata, then Nodes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/column.hpp"
#include "core/codec/layout.hpp"
#include "core/text/interner.hpp"
#include "core/wire/wire.hpp"

namespace chakra {

// The fields every node has, as columns.
struct NodeColumns {
    Buffer<uint64_t> id, start, duration;
    Buffer<int32_t> name, type, layout;
    Buffer<int32_t> ctrl_offsets, data_offsets;
    Buffer<uint64_t> ctrl, data;
    size_t rows() const { return id.size(); }
};

// A column that is known before reading, from the vocabulary.
struct KnownColumn {
    std::string name;
    Storage storage;
};

// Bytes go in as they come, in pieces of any size; whole nodes are taken off the front and appended
// to the batch. Attribute names become columns when they first occur, up to `max_columns`.
// Attributes beyond that, and values that do not fit their column, are kept as bytes in `raw`.
class Decoder {
   public:
    Decoder(const std::vector<KnownColumn>& known, size_t max_columns);

    // Decodes whole frames of `data` until the batch has `max_rows` nodes or about `max_bytes`.
    // Returns the bytes consumed. With `last`, a frame cut off at the end is an error.
    size_t decode(std::string_view data, bool last, size_t max_rows, size_t max_bytes);

    bool has_metadata() const { return has_metadata_; }
    const std::string& metadata() const { return metadata_; }
    bool started() const { return started_; }
    // Whether decode() stopped because the batch is full, not because it ran out of bytes.
    bool full() const { return full_; }

    // The batch so far. Columns are padded to equal length by seal(); reset() starts the next
    // batch.
    void seal();
    void reset();
    NodeColumns nodes;
    std::vector<Column> io;  // inputs_values … outputs_strides, inputs_unknown, outputs_unknown
    Column raw{"raw", Storage::kBinary};
    Column unknown{"unknown", Storage::kBinary};
    std::vector<std::unique_ptr<Column>> attributes;
    Layouts layouts;
    Interner names;

   private:
    struct Io {
        std::string_view text[4];
        std::string unknown;
        bool present = false;
    };

    void make_room();
    size_t frame(std::string_view data, size_t pos, bool last, size_t& body);
    void first_frame(wire::Cursor c);
    void node(wire::Cursor c);
    void commit_node(wire::Cursor c);
    void node_field(wire::Cursor& c, uint32_t tag, const uint8_t* start);
    void io_info(wire::Cursor c, Io& io);
    void commit_io(Io& from, size_t side, wire::Cursor c);
    void attribute(wire::Cursor c);
    bool attribute_as_guessed(wire::Cursor c);
    void attribute_by_name(wire::Cursor c);
    bool attribute_in_column(wire::Cursor c);
    bool value(wire::Cursor c, Column& column, int member);
    bool list(wire::Cursor c, Column& column, int member);
    int32_t column_for(std::string_view name, Storage storage);
    void add_column(std::string_view name, Storage storage);

    // The bytes an attribute of this column and member starts with.
    const std::string& prefix(LayoutEntry entry);

    size_t max_columns_;
    Interner column_names_;
    std::deque<std::vector<std::string>> prefixes_;  // [column][member]; never move
    bool started_ = false;
    bool has_metadata_ = false;
    std::string metadata_;
    uint64_t consumed_ = 0;
    uint64_t nodes_read_ = 0;
    uint64_t batch_bytes_ = 0;
    bool full_ = false;
    size_t room_ = 0;

    // The node being read.
    uint64_t id_ = 0, start_ = 0, duration_ = 0;
    int32_t type_ = 0;
    std::string_view name_;
    Io inputs_, outputs_;
    std::string raw_, unknown_;
    int32_t step_ = Layouts::kRoot;
};

}  // namespace chakra
