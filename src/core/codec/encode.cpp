#include "core/codec/encode.hpp"

#include <bit>

#include "core/codec/layout.hpp"

namespace chakra {

using wire::tag;

namespace {

constexpr size_t kVarint = BackWriter::kVarint, kField = BackWriter::kField;

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

void put_texts(BackWriter& out, const ValueColumn& c, size_t row) {
    for (int32_t i = c.offsets[row + 1]; i-- > c.offsets[row];)
        out.field(tag(1, wire::kBytes), c.element(i));
}

// Elements of a numeric list are packed; an empty list writes nothing.
void put_numbers(BackWriter& out, const ValueColumn& c, int scalar, size_t row) {
    int32_t first = c.offsets[row];
    int32_t end = c.offsets[row + 1];
    if (first == end) return;
    out.reserve(static_cast<size_t>(end - first) * kVarint + kField);
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

// A value without its tag, and room left for `more` bytes before it.
void put_value(BackWriter& out, const ValueColumn& c, int m, size_t row, size_t more) {
    size_t mark = out.size();
    switch (c.storage) {
        case Storage::kString:
        case Storage::kBinary: {
            std::string_view s = c.text_at(row);
            out.reserve(s.size() + kVarint + more);
            out.text(s);
            return out.varint(s.size());
        }
        case Storage::kInt: out.reserve(kVarint + more); return put_int(out, m, c.words[row]);
        case Storage::kDouble: out.reserve(kVarint + more); return put_double(out, m, c.words[row]);
        case Storage::kBool: out.reserve(kVarint + more); return put_int(out, m, c.flags[row] != 0);
        case Storage::kStringList:
        case Storage::kBinaryList: put_texts(out, c, row); break;
        default: put_numbers(out, c, member::scalar_of(m), row);
    }
    out.reserve(kVarint + more);
    out.varint(out.size() - mark);
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

// What attributes of each column and member start with.
class Prefixes {
   public:
    explicit Prefixes(const EncodeInput& in) : in_(in), made_(in.attributes.size() * kMembers) {}

    const std::string& of(size_t column, int m) {
        std::string& p = made_[column * kMembers + static_cast<size_t>(m)];
        if (p.empty()) p = make(in_.attributes[column].name, m);
        return p;
    }

   private:
    static constexpr size_t kMembers = member::kLast + 1;

    static std::string make(std::string_view name, int m) {
        BackWriter out(name.size() + 2 * kField);
        out.varint(tag(static_cast<uint32_t>(m), member::wire_type(m)));
        out.field(tag(member::kName, wire::kBytes), name);
        return {reinterpret_cast<const char*>(out.begin()), out.size()};
    }

    const EncodeInput& in_;
    std::vector<std::string> made_;
};

void put_attribute(const EncodeInput& in, size_t column, int m, size_t row, Prefixes& prefixes,
                   BackWriter& out) {
    const std::string& prefix = prefixes.of(column, m);
    size_t mark = out.size();
    put_value(out, in.attributes[column], m, row, prefix.size() + kField);
    out.text(prefix);
    out.close(mark, tag(10, wire::kBytes));
}

void put_attributes(const EncodeInput& in, size_t row, Prefixes& prefixes, BackWriter& out) {
    int32_t layout = in.layout[row];
    std::vector<std::string_view> raw;
    size_t raw_left = 0;
    for (int32_t i = in.layouts.offsets[layout + 1]; i-- > in.layouts.offsets[layout];) {
        int32_t number = in.layouts.columns[i];
        if (number != LayoutEntry::kRaw) {
            put_attribute(in, static_cast<size_t>(number), in.layouts.members[i], row, prefixes,
                          out);
            continue;
        }
        if (raw.empty()) raw = raw_attributes(in.raw, row), raw_left = raw.size();
        if (raw_left == 0) throw FormatError("fewer raw attributes than the layout says");
        out.field(tag(10, wire::kBytes), raw[--raw_left]);
    }
    if (raw_left) throw FormatError("more raw attributes than the layout says");
}

void put_raw(const TextColumn& c, size_t row, BackWriter& out) {
    if (!c.has(row)) return;
    out.reserve(c.at(row).size());
    out.text(c.at(row));
}

void put_io(const EncodeInput& in, size_t row, int side, bool flagged, BackWriter& out) {
    size_t mark = out.size();
    put_raw(in.io_unknown[side], row, out);
    for (int i = 4; i-- > 0;) {
        const TextColumn& c = in.io[side * 4 + i];
        if (!c.has(row)) continue;
        std::string_view s = c.at(row);
        if (!s.empty()) out.field(tag(static_cast<uint32_t>(i + 1), wire::kBytes), s);
    }
    out.reserve(kField);
    if (flagged || out.size() > mark)
        out.close(mark, tag(8u + static_cast<uint32_t>(side), wire::kBytes));
}

void put_ids(BackWriter& out, uint32_t field, std::span<const uint64_t> ids) {
    if (ids.empty()) return;
    out.reserve(ids.size() * kVarint + kField);
    size_t mark = out.size();
    for (size_t i = ids.size(); i-- > 0;) out.varint(ids[i]);
    out.close(mark, tag(field, wire::kBytes));
}

void put_scalar(BackWriter& out, uint32_t field, uint64_t v) {
    if (v == 0) return;
    out.varint(v);
    out.varint(tag(field, wire::kVarint));
}

void put_node(const EncodeInput& in, size_t row, Prefixes& prefixes, BackWriter& out) {
    uint8_t flags = in.layouts.flags[in.layout[row]];
    size_t mark = out.size();
    put_raw(in.unknown, row, out);
    put_attributes(in, row, prefixes, out);
    put_io(in, row, 1, flags & Layouts::kHasOutputs, out);
    put_io(in, row, 0, flags & Layouts::kHasInputs, out);
    out.reserve(2 * kField);
    put_scalar(out, 7, in.duration[row]);
    put_scalar(out, 6, in.start[row]);
    put_ids(out, 5, in.data.at(row));
    put_ids(out, 4, in.ctrl.at(row));
    std::string_view name = in.names.at(static_cast<size_t>(in.name[row]));
    out.reserve(name.size() + 4 * kField);
    put_scalar(out, 3, static_cast<uint64_t>(static_cast<int64_t>(in.type[row])));
    if (!name.empty()) out.field(tag(2, wire::kBytes), name);
    put_scalar(out, 1, in.id[row]);
    out.varint(out.size() - mark);
}

size_t likely_attributes_size(const EncodeInput& in, int32_t layout) {
    size_t bytes = 0;
    for (int32_t i = in.layouts.offsets[layout]; i < in.layouts.offsets[layout + 1]; ++i)
        if (in.layouts.columns[i] >= 0)
            bytes += 12 + in.attributes[static_cast<size_t>(in.layouts.columns[i])].name.size();
    return bytes;
}

}  // namespace

size_t likely_size(const EncodeInput& in) {
    size_t n = in.rows;
    auto text = [n](const int32_t* offsets) {
        return offsets ? static_cast<size_t>(offsets[n] - offsets[0]) : 0;
    };
    size_t bytes = 96 * n + text(in.raw.offsets) + text(in.unknown.offsets);
    for (const TextColumn& c : in.io) bytes += text(c.offsets);
    for (const ValueColumn& c : in.attributes) bytes += text(c.offsets);
    for (size_t row = 0; row < n; ++row) bytes += likely_attributes_size(in, in.layout[row]);
    return bytes;
}

void encode(const EncodeInput& in, BackWriter& out) {
    Prefixes prefixes(in);
    for (size_t row = in.rows; row-- > 0;) put_node(in, row, prefixes, out);
}

}  // namespace chakra
