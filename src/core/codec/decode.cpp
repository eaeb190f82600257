#include "core/codec/decode.hpp"

#include <algorithm>

#include "core/codec/schema_check.hpp"
#include "core/text/utf8.hpp"

namespace chakra {

using wire::Cursor;
using wire::tag;

namespace {

constexpr const char* kIoNames[] = {"inputs_values",  "inputs_shapes",  "inputs_types",
                                    "inputs_strides", "outputs_values", "outputs_shapes",
                                    "outputs_types",  "outputs_strides"};
constexpr size_t kIoFields = 4;
constexpr size_t kUnknownIo = 2 * kIoFields;

std::string_view between(const uint8_t* a, const uint8_t* b) {
    return {reinterpret_cast<const char*>(a), static_cast<size_t>(b - a)};
}

void append_varint(std::string& s, uint64_t v) {
    for (; v >= 0x80; v >>= 7) s.push_back(static_cast<char>(v | 0x80));
    s.push_back(static_cast<char>(v));
}

void read_ids(Cursor c, Buffer<uint64_t>& into) {
    while (!c.done()) into.push(c.varint());
}

// The elements of an XxxList message; `element` is called with a cursor at each.
template <class F>
bool for_each_element(const Cursor& list, int scalar, F element) {
    Cursor c = list;
    wire::Type type = member::element_wire(scalar);
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t == tag(1, wire::kBytes) && type != wire::kBytes) {
            for (Cursor packed = c.bytes(); !packed.done();)
                if (!element(packed)) return false;
        } else if (t == tag(1, type)) {
            if (!element(c)) return false;
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace

Decoder::Decoder(const std::vector<KnownColumn>& known, size_t max_columns)
    : max_columns_(max_columns) {
    for (const char* name : kIoNames) io.emplace_back(name, Storage::kString);
    io.emplace_back("inputs_unknown", Storage::kBinary);
    io.emplace_back("outputs_unknown", Storage::kBinary);
    for (const KnownColumn& k : known) add_column(k.name, k.storage);
    reset();
}

void Decoder::reset() {
    nodes = {};
    room_ = 0;
    batch_bytes_ = 0;
    full_ = false;
    nodes.ctrl_offsets.push(0);
    nodes.data_offsets.push(0);
    for (Column& c : io) c.reset();
    for (auto& c : attributes) c->reset();
    raw.reset();
    unknown.reset();
}

// Room for one more row in every fixed column at once, so that the pushes need not look.
void Decoder::make_room() {
    room_ = nodes.rows() + std::max<size_t>(nodes.rows() / 2, 4096);
    for (auto* b : {&nodes.id, &nodes.start, &nodes.duration}) b->reserve(room_);
    for (auto* b : {&nodes.name, &nodes.type, &nodes.layout}) b->reserve(room_);
    for (auto* b : {&nodes.ctrl_offsets, &nodes.data_offsets}) b->reserve(room_ + 1);
}

void Decoder::seal() {
    size_t n = nodes.rows();
    // Columns without values stay empty: the vocabulary is wider than any one trace.
    auto pad = [n](Column& c) {
        if (c.valid_count) c.pad_to(n);
    };
    for (Column& c : io) pad(c);
    for (auto& c : attributes) pad(*c);
    pad(raw);
    pad(unknown);
}

void Decoder::add_column(std::string_view name, Storage storage) {
    column_names_.intern(name);
    attributes.push_back(std::make_unique<Column>(std::string(name), storage));
    prefixes_.emplace_back(member::kLast + 1);
}

int32_t Decoder::column_for(std::string_view name, Storage storage) {
    int32_t c = column_names_.find(name);
    if (c >= 0 || attributes.size() >= max_columns_) return c;
    add_column(name, storage);
    return static_cast<int32_t>(attributes.size()) - 1;
}

const std::string& Decoder::prefix(LayoutEntry entry) {
    std::string& p = prefixes_[entry.column][entry.member];
    if (p.empty()) {
        const std::string& name = attributes[entry.column]->name;
        p.push_back(tag(member::kName, wire::kBytes));
        append_varint(p, name.size());
        p += name;
        append_varint(p, tag(entry.member, member::wire_type(entry.member)));
    }
    return p;
}

size_t Decoder::decode(std::string_view data, bool last, size_t max_rows, size_t max_bytes) {
    size_t pos = 0, body = 0;
    try {
        while (pos < data.size()) {
            size_t length = frame(data, pos, last, body);
            if (body == 0) break;
            // A batch's offsets are 32-bit: a huge node starts a batch of its own.
            full_ =
                nodes.rows() > 0 && (nodes.rows() >= max_rows || batch_bytes_ + length > max_bytes);
            if (full_) break;
            batch_bytes_ += length;
            const auto* origin = reinterpret_cast<const uint8_t*>(data.data());
            Cursor message(origin + body, origin + body + length, origin);
            if (started_)
                node(message);
            else
                first_frame(message);
            pos = body + length;
        }
    } catch (const FormatError& e) {
        std::string where = started_ ? "node number " + std::to_string(nodes_read_) : "the header";
        throw FormatError(where + ": " + e.what(),
                          static_cast<int64_t>(consumed_ + static_cast<uint64_t>(e.offset())));
    }
    consumed_ += pos;
    return pos;
}

// Length of the frame at `pos`; `body` is where its message starts, or 0 if bytes are still
// missing.
size_t Decoder::frame(std::string_view data, size_t pos, bool last, size_t& body) {
    const auto* origin = reinterpret_cast<const uint8_t*>(data.data());
    Cursor c(origin + pos, origin + data.size(), origin);
    body = 0;
    size_t prefix_size = 0;
    while (prefix_size < c.left() && prefix_size < 10 && c.at()[prefix_size] >= 0x80) ++prefix_size;
    if (prefix_size == c.left()) {
        if (last) c.fail("the file ends inside a length; it is cut off or not a trace");
        return 0;
    }
    uint64_t length = c.varint();
    if (length > wire::kMaxLength)
        throw FormatError(
            "a length of " + std::to_string(length) + " bytes; the file is damaged or not a trace",
            static_cast<int64_t>(pos));
    if (length > c.left()) {
        if (!last) return 0;
        throw FormatError("the message needs " + std::to_string(length) +
                              " bytes and the file has " + std::to_string(c.left()) +
                              " left; it is cut off or not a trace",
                          static_cast<int64_t>(pos));
    }
    body = static_cast<size_t>(c.offset());
    return length;
}

void Decoder::first_frame(Cursor c) {
    if (is_node(c)) {
        started_ = true;
        return node(c);
    }
    check_metadata(c);
    metadata_ = c.rest();
    has_metadata_ = started_ = true;
}

void Decoder::node(Cursor c) {
    id_ = start_ = duration_ = 0;
    type_ = 0;
    name_ = {};
    step_ = Layouts::kRoot;
    while (!c.done()) {
        const uint8_t* start = c.at();
        node_field(c, c.tag(), start);
    }
    commit_node(c);
}

// Appends the node that was read to the columns.
[[gnu::always_inline]] inline void Decoder::commit_node(Cursor c) {
    bool fresh;
    int32_t name = names.intern(name_, fresh);
    if (fresh) require_utf8(c, name_, "the name");
    size_t row = nodes.rows();
    uint8_t flags =
        (inputs_.present ? Layouts::kHasInputs : 0) | (outputs_.present ? Layouts::kHasOutputs : 0);
    if (inputs_.present) commit_io(inputs_, 0, c);
    if (outputs_.present) commit_io(outputs_, 1, c);
    if (!raw_.empty()) raw.set_text(row, raw_), raw_.clear();
    if (!unknown_.empty()) unknown.set_text(row, unknown_), unknown_.clear();
    if (row >= room_) make_room();
    nodes.id.push_reserved(id_);
    nodes.name.push_reserved(name);
    nodes.type.push_reserved(type_);
    nodes.start.push_reserved(start_);
    nodes.duration.push_reserved(duration_);
    nodes.ctrl_offsets.push_reserved(static_cast<int32_t>(nodes.ctrl.size()));
    nodes.data_offsets.push_reserved(static_cast<int32_t>(nodes.data.size()));
    nodes.layout.push_reserved(layouts.finish(step_, flags));
    ++nodes_read_;
}

[[gnu::always_inline]] inline void Decoder::node_field(Cursor& c, uint32_t t,
                                                       const uint8_t* start) {
    switch (t) {
        case tag(1, wire::kVarint): id_ = c.varint(); return;
        case tag(2, wire::kBytes): name_ = c.text(); return;
        case tag(3, wire::kVarint): type_ = static_cast<int32_t>(c.varint()); return;
        case tag(4, wire::kVarint): nodes.ctrl.push(c.varint()); return;
        case tag(4, wire::kBytes): read_ids(c.bytes(), nodes.ctrl); return;
        case tag(5, wire::kVarint): nodes.data.push(c.varint()); return;
        case tag(5, wire::kBytes): read_ids(c.bytes(), nodes.data); return;
        case tag(6, wire::kVarint): start_ = c.varint(); return;
        case tag(7, wire::kVarint): duration_ = c.varint(); return;
        case tag(8, wire::kBytes):
        case tag(9, wire::kBytes):
            io_info(c.bytes(), t == tag(8, wire::kBytes) ? inputs_ : outputs_);
            return;
        case tag(10, wire::kBytes): attribute(c.bytes()); return;
        default: c.skip(t); unknown_ += between(start, c.at());
    }
}

[[gnu::always_inline]] inline void Decoder::io_info(Cursor c, Io& io) {
    io.present = true;
    while (!c.done()) {
        const uint8_t* start = c.at();
        uint32_t t = c.tag();
        uint32_t field = t >> 3;
        if (field <= kIoFields && (t & 7) == wire::kBytes) {
            std::string_view text = c.text();
            if (field < kIoFields || is_strides(text, io.text[3], io.unknown)) {
                io.text[field - 1] = text;
                continue;
            }
        } else {
            c.skip(t);
        }
        io.unknown += between(start, c.at());
    }
}

void Decoder::commit_io(Io& from, size_t side, Cursor c) {
    size_t row = nodes.rows();
    for (size_t i = 0; i < kIoFields; ++i) {
        std::string_view text = std::exchange(from.text[i], {});
        if (!text.empty() && !io[side * kIoFields + i].set_utf8(row, text))
            require_utf8(c, text, "an input's or output's description");
    }
    if (!from.unknown.empty()) io[kUnknownIo + side].set_text(row, from.unknown);
    from.unknown.clear();
    from.present = false;
}

[[gnu::always_inline]] inline void Decoder::attribute(Cursor c) {
    if (attribute_as_guessed(c)) return;
    attribute_by_name(c);
}

void Decoder::attribute_by_name(Cursor c) {
    if (attribute_in_column(c)) return;
    check_attribute(c);
    append_varint(raw_, c.left());
    raw_ += c.rest();
    step_ = layouts.advance(step_, {LayoutEntry::kRaw, 0}, {});
}

// The fast path: the same name and member as in the previous node at this place.
[[gnu::always_inline]] inline bool Decoder::attribute_as_guessed(Cursor c) {
    int32_t next = layouts.guess(step_);
    if (next < 0) return false;
    std::string_view expected = layouts.prefix(next);
    if (expected.empty() || c.left() < expected.size() ||
        !equal_short(reinterpret_cast<const char*>(c.at()), expected.data(), expected.size()))
        return false;
    Cursor at(c.at() + expected.size(), c.end(), c.origin());
    LayoutEntry entry = layouts.entry(next);
    Column& column = *attributes[entry.column];
    if (!column.open_at(nodes.rows()) || !value(at, column, entry.member)) return false;
    step_ = next;
    return true;
}

bool Decoder::attribute_in_column(Cursor c) {
    if (c.done() || c.tag() != tag(member::kName, wire::kBytes)) return false;
    std::string_view name = c.text();
    if (c.done() || !is_utf8(name)) return false;
    uint32_t t = c.tag();
    int m = static_cast<int>(t >> 3);
    if (!member::is_value(t >> 3) || (t & 7) != member::wire_type(m)) return false;
    int32_t number = column_for(name, member::storage(m));
    if (number < 0) return false;
    Column& column = *attributes[number];
    if (!member::fits(column.storage, m) || !column.open_at(nodes.rows())) return false;
    if (!value(c, column, m)) return false;
    LayoutEntry entry{number, static_cast<int8_t>(m)};
    step_ = layouts.advance(step_, entry, prefix(entry));
    return true;
}

// Reads the rest of an attribute into its column; false (and the column untouched) if it does not
// fit.
[[gnu::always_inline]] inline bool Decoder::value(Cursor c, Column& column, int m) {
    size_t row = nodes.rows();
    int64_t i = 0;
    double d = 0;
    switch (column.storage) {
        case Storage::kInt:
            if (!read_int(c, m, i) || !c.done()) return false;
            column.set_int(row, i);
            return true;
        case Storage::kDouble:
            if (!read_double(c, m, d) || !c.done()) return false;
            column.set_double(row, d);
            return true;
        case Storage::kBool:
            if (!read_int(c, m, i) || !c.done() || (i != 0 && i != 1)) return false;
            column.set_bool(row, i != 0);
            return true;
        case Storage::kString:
        case Storage::kBinary: {
            std::string_view s = c.text();
            if (!c.done()) return false;
            if (column.storage == Storage::kString) return column.set_utf8(row, s);
            column.set_text(row, s);
            return true;
        }
        default: {
            Cursor inner = c.bytes();
            return c.done() && list(inner, column, m);
        }
    }
}

// Appends one element to a list that is open; false if it does not fit.
[[gnu::always_inline]] static inline bool push_element(Column& column, Cursor& c, int scalar) {
    int64_t i = 0;
    double d = 0;
    switch (column.storage) {
        case Storage::kIntList:
            if (!read_int(c, scalar, i)) return false;
            column.words.push(i);
            return true;
        case Storage::kDoubleList:
            if (!read_double(c, scalar, d)) return false;
            column.words.push(std::bit_cast<int64_t>(d));
            return true;
        case Storage::kBoolList: column.flags.push(c.varint() != 0); return true;
        default: {
            std::string_view s = c.text();
            if (column.storage == Storage::kStringList && !is_utf8(s)) return false;
            column.push_text(s);
            return true;
        }
    }
}

bool Decoder::list(Cursor c, Column& column, int m) {
    size_t row = nodes.rows();
    int scalar = member::scalar_of(m);
    column.open_list(row);
    bool fits =
        for_each_element(c, scalar, [&](Cursor& e) { return push_element(column, e, scalar); });
    if (fits)
        column.close_list(row);
    else
        column.abandon_list();
    return fits;
}

}  // namespace chakra
