#include "core/encode.hpp"

#include <bit>

#include "core/layout.hpp"

namespace chakra {

using wire::tag;

namespace {

void put_int(BackWriter& out, int scalar, int64_t v) {
    switch (scalar) {
        case member::kUint32: return out.varint(static_cast<uint32_t>(v));
        case member::kSint32:
            return out.varint(static_cast<uint32_t>(wire::zigzag_encode(static_cast<int32_t>(v))));
        case member::kSint64: return out.varint(wire::zigzag_encode(v));
        case member::kFixed32:
        case member::kSfixed32: return out.fixed(static_cast<uint32_t>(v));
        case member::kFixed64:
        case member::kSfixed64: return out.fixed(static_cast<uint64_t>(v));
        default: return out.varint(static_cast<uint64_t>(v));
    }
}

void put_double(BackWriter& out, int scalar, int64_t bits) {
    if (scalar == member::kDouble) return out.fixed(bits);
    out.fixed(static_cast<float>(std::bit_cast<double>(bits)));
}

// Elements of a numeric list are packed; an empty list writes nothing.
void put_list(BackWriter& out, const ValueColumn& c, int m, size_t row) {
    int scalar = member::scalar_of(m);
    int32_t first = c.offsets[row];
    int32_t end = c.offsets[row + 1];
    if (c.storage >= Storage::kStringList) {
        for (int32_t i = end; i-- > first;)
            out.field(
                tag(1, wire::kBytes),
                {c.text + c.elements[i], static_cast<size_t>(c.elements[i + 1] - c.elements[i])});
        return;
    }
    if (first == end) return;
    size_t mark = out.size();
    for (int32_t i = end; i-- > first;) {
        if (c.storage == Storage::kBoolList)
            out.byte(c.flags[i]);
        else if (c.storage == Storage::kDoubleList)
            put_double(out, scalar, c.words[i]);
        else
            put_int(out, scalar, c.words[i]);
    }
    out.close(mark, tag(1, wire::kBytes));
}

void put_value(BackWriter& out, const ValueColumn& c, int m, size_t row) {
    size_t mark = out.size();
    switch (c.storage) {
        case Storage::kInt: put_int(out, m, c.words[row]); break;
        case Storage::kDouble: put_double(out, m, c.words[row]); break;
        case Storage::kBool: put_int(out, m, c.flags[row] != 0); break;
        case Storage::kString:
        case Storage::kBinary: {
            std::string_view s(c.text + c.offsets[row],
                               static_cast<size_t>(c.offsets[row + 1] - c.offsets[row]));
            out.text(s);
            out.varint(s.size());
            break;
        }
        default: put_list(out, c, m, row); out.varint(out.size() - mark);
    }
    out.varint(tag(static_cast<uint32_t>(m), member::wire_type(m)));
}

// The raw attributes of a row, in order: each is its length and its bytes.
std::vector<std::string_view> raw_attributes(const TextColumn& raw, size_t row) {
    std::vector<std::string_view> found;
    if (!raw.has(row)) return found;
    std::string_view s = raw.at(row);
    const auto* p = reinterpret_cast<const uint8_t*>(s.data());
    for (wire::Cursor c(p, p + s.size()); !c.done();) found.push_back(c.text());
    return found;
}

void put_attributes(const EncodeInput& in, size_t row, BackWriter& out) {
    int32_t layout = in.layout[row];
    std::vector<std::string_view> raw;
    size_t raw_left = 0;
    for (int32_t i = in.layouts.offsets[layout + 1]; i-- > in.layouts.offsets[layout];) {
        int32_t number = in.layouts.columns[i];
        if (number == LayoutEntry::kRaw) {
            if (raw.empty()) raw = raw_attributes(in.raw, row), raw_left = raw.size();
            if (raw_left == 0) throw FormatError("fewer raw attributes than the layout says");
            out.field(tag(10, wire::kBytes), raw[--raw_left]);
            continue;
        }
        const ValueColumn& c = in.attributes[static_cast<size_t>(number)];
        size_t mark = out.size();
        put_value(out, c, in.layouts.members[i], row);
        out.field(tag(member::kName, wire::kBytes), c.name);
        out.close(mark, tag(10, wire::kBytes));
    }
}

void put_io(const EncodeInput& in, size_t row, int side, bool flagged, BackWriter& out) {
    size_t mark = out.size();
    if (in.io_unknown[side].has(row)) out.text(in.io_unknown[side].at(row));
    for (int i = 4; i-- > 0;) {
        const TextColumn& c = in.io[side * 4 + i];
        if (!c.has(row)) continue;
        std::string_view s = c.at(row);
        if (!s.empty()) out.field(tag(static_cast<uint32_t>(i + 1), wire::kBytes), s);
    }
    if (flagged || out.size() > mark)
        out.close(mark, tag(8u + static_cast<uint32_t>(side), wire::kBytes));
}

void put_ids(BackWriter& out, uint32_t field, std::span<const uint64_t> ids) {
    if (ids.empty()) return;
    size_t mark = out.size();
    for (size_t i = ids.size(); i-- > 0;) out.varint(ids[i]);
    out.close(mark, tag(field, wire::kBytes));
}

void put_scalar(BackWriter& out, uint32_t field, uint64_t v) {
    if (v == 0) return;
    out.varint(v);
    out.varint(tag(field, wire::kVarint));
}

void put_node(const EncodeInput& in, size_t row, BackWriter& out) {
    uint8_t flags = in.layouts.flags[in.layout[row]];
    size_t mark = out.size();
    if (in.unknown.has(row)) out.text(in.unknown.at(row));
    put_attributes(in, row, out);
    put_io(in, row, 1, flags & Layouts::kHasOutputs, out);
    put_io(in, row, 0, flags & Layouts::kHasInputs, out);
    put_scalar(out, 7, in.duration[row]);
    put_scalar(out, 6, in.start[row]);
    put_ids(out, 5, in.data.at(row));
    put_ids(out, 4, in.ctrl.at(row));
    put_scalar(out, 3, static_cast<uint64_t>(static_cast<int64_t>(in.type[row])));
    std::string_view name = in.names.at(static_cast<size_t>(in.name[row]));
    if (!name.empty()) out.field(tag(2, wire::kBytes), name);
    put_scalar(out, 1, in.id[row]);
    out.varint(out.size() - mark);
}

}  // namespace

void encode(const EncodeInput& in, BackWriter& out) {
    for (size_t row = in.rows; row-- > 0;) put_node(in, row, out);
}

}  // namespace chakra
