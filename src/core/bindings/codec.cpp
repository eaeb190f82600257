// Decoder, encoder and JSON text for Python: buffers in Arrow's layout, no meaning.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "core/bindings/bind.hpp"
#include "core/codec/decode.hpp"
#include "core/codec/encode.hpp"
#include "core/codec/json_text.hpp"
#include "core/codec/schema_check.hpp"

namespace chakra::bind {

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view view(const Bytes& b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}

Out<uint8_t> packed_bits(const Buffer<uint8_t>& flags) {
    std::vector<uint8_t> bits((flags.size() + 7) / 8);
    for (size_t i = 0; i < flags.size(); ++i)
        bits[i / 8] |= static_cast<uint8_t>((flags[i] != 0) << (i % 8));
    return to_numpy(std::move(bits));
}

// (name, storage, null count, bitmap or None, buffers). The name starts with @ for an attribute,
// with _ for what is kept only to be written back.
nb::tuple give_column(Column& c, const char* prefix) {
    nb::object valid = nb::none();
    size_t nulls = c.rows - c.valid_count;
    c.note_size();
    if (nulls) valid = nb::cast(give(c.valid));
    nb::list buffers;
    if (c.has_offsets()) buffers.append(give(c.offsets));
    if (c.storage == Storage::kBool || c.storage == Storage::kBoolList) {
        buffers.append(packed_bits(c.flags));
    } else if (c.storage == Storage::kString || c.storage == Storage::kBinary) {
        buffers.append(give(c.text));
    } else if (c.storage >= Storage::kStringList) {
        buffers.append(give(c.elements));
        buffers.append(give(c.text));
    } else {
        buffers.append(give(c.words));
    }
    return nb::make_tuple(prefix + c.name, static_cast<int>(c.storage), nulls, valid, buffers);
}

// Everything of the batch; afterwards the decoder starts the next one.
nb::dict take_batch(Decoder& d) {
    d.seal();
    nb::dict batch;
    batch["rows"] = d.nodes.rows();
    batch["id"] = give(d.nodes.id);
    batch["name"] = give(d.nodes.name);
    batch["type"] = give(d.nodes.type);
    batch["start"] = give(d.nodes.start);
    batch["duration"] = give(d.nodes.duration);
    batch["layout"] = give(d.nodes.layout);
    batch["ctrl_offsets"] = give(d.nodes.ctrl_offsets);
    batch["ctrl"] = give(d.nodes.ctrl);
    batch["data_offsets"] = give(d.nodes.data_offsets);
    batch["data"] = give(d.nodes.data);
    nb::list columns;
    auto add = [&](Column& c, const char* prefix) {
        if (c.valid_count) columns.append(give_column(c, prefix));
    };
    for (size_t i = 0; i < d.io.size(); ++i) add(d.io[i], i < 8 ? "" : "_");
    for (auto& c : d.attributes) add(*c, "@");
    add(d.raw, "_");
    add(d.unknown, "_");
    batch["columns"] = columns;
    d.reset();
    return batch;
}

nb::tuple names_of(Decoder& d, bool forget) {
    std::vector<int64_t> offsets(d.names.offsets().data(),
                                 d.names.offsets().data() + d.names.offsets().size());
    nb::bytes text(d.names.text().data(), d.names.text().size());
    if (forget) d.names.clear();
    return nb::make_tuple(to_numpy(std::move(offsets)), text);
}

nb::tuple layouts_of(Decoder& d, bool forget) {
    auto copy = [](const auto& v) { return to_numpy(std::remove_cvref_t<decltype(v)>(v)); };
    const Layouts& l = d.layouts;
    nb::tuple found =
        nb::make_tuple(copy(l.flags()), copy(l.offsets()), copy(l.columns()), copy(l.members()));
    if (forget) d.layouts.clear();
    return found;
}

// No conversion: a converted array would be a copy that dies with this expression.
template <class T>
In<T> exact(nb::handle h) {
    return nb::cast<In<T>>(h, false);
}

void require(bool fits, std::string_view what) {
    if (!fits) throw FormatError("column " + std::string(what) + " is shorter than its table");
}

template <class T>
const T* at_least(size_t size, nb::handle h, std::string_view what) {
    In<T> a = exact<T>(h);
    require(a.size() >= size, what);
    return a.data();
}

// None, or (offsets, text, bitmap or None, bit offset).
TextColumn text_column(const nb::object& o, size_t rows) {
    TextColumn c;
    if (o.is_none()) return c;
    auto t = nb::cast<nb::tuple>(o);
    c.offsets = at_least<int32_t>(rows + 1, t[0], "of text");
    auto end = static_cast<size_t>(c.offsets[rows]);
    c.text = reinterpret_cast<const char*>(at_least<uint8_t>(end, t[1], "of text"));
    c.valid_offset = nb::cast<int64_t>(t[3]);
    size_t bits = rows + static_cast<size_t>(c.valid_offset);
    if (!t[2].is_none()) c.valid = at_least<uint8_t>((bits + 7) / 8, t[2], "of text");
    return c;
}

// (name, storage, buffers…) with the same buffers give_column makes, but booleans a byte each.
ValueColumn value_column(const nb::tuple& t, size_t rows) {
    ValueColumn c;
    c.name = nb::cast<std::string>(t[0]);
    c.storage = static_cast<Storage>(nb::cast<int>(t[1]));
    size_t next = 2, values = rows;
    auto offsets = [&] {
        const int32_t* found = at_least<int32_t>(values + 1, t[next++], c.name);
        values = static_cast<size_t>(found[values]);
        return found;
    };
    if (c.storage >= Storage::kString) c.offsets = offsets();
    if (c.storage >= Storage::kStringList) c.elements = offsets();
    if (c.storage == Storage::kBool || c.storage == Storage::kBoolList)
        c.flags = at_least<uint8_t>(values, t[next], c.name);
    else if (c.storage == Storage::kInt || c.storage == Storage::kDouble ||
             c.storage == Storage::kIntList || c.storage == Storage::kDoubleList)
        c.words = at_least<int64_t>(values, t[next], c.name);
    else
        c.text = reinterpret_cast<const char*>(at_least<uint8_t>(values, t[next], c.name));
    return c;
}

template <class T>
const T* column_of(const nb::dict& d, const char* key, size_t rows) {
    auto a = exact<T>(d[key]);
    if (a.size() != rows) throw FormatError(std::string(key) + " is not as long as the table");
    return a.data();
}

IdLists id_lists(const nb::dict& d, const char* offsets, const char* ids, size_t rows) {
    auto o = exact<int32_t>(d[offsets]);
    if (o.size() != rows + 1) throw FormatError("dependency offsets do not fit the table");
    return {o.data(), at_least<uint64_t>(static_cast<size_t>(o.data()[rows]), d[ids], ids)};
}

// Layout numbers may come from a file: nothing is indexed before it is checked.
void check_layouts(const EncodeInput& in, size_t layouts, size_t entries, size_t names) {
    for (size_t i = 0; i < in.rows; ++i) {
        if (static_cast<uint32_t>(in.layout[i]) >= layouts)
            throw FormatError("layout out of range");
        if (static_cast<uint32_t>(in.name[i]) >= names) throw FormatError("name out of range");
    }
    for (size_t i = 0; i < layouts; ++i)
        if (in.layouts.offsets[i] > in.layouts.offsets[i + 1])
            throw FormatError("layout offsets out of order");
    for (size_t i = 0; i < entries; ++i) {
        int32_t c = in.layouts.columns[i];
        if (c == LayoutEntry::kRaw) continue;
        if (c < 0 || static_cast<size_t>(c) >= in.attributes.size())
            throw FormatError("layout names a column that is not there");
        int m = in.layouts.members[i];
        if (!member::is_value(static_cast<uint32_t>(m)) ||
            !member::fits(in.attributes[static_cast<size_t>(c)].storage, m))
            throw FormatError("layout's member does not fit column " +
                              in.attributes[static_cast<size_t>(c)].name);
    }
}

EncodeInput encode_input(const nb::dict& d) {
    EncodeInput in;
    in.rows = nb::cast<size_t>(d["rows"]);
    in.id = column_of<uint64_t>(d, "id", in.rows);
    in.name = column_of<int32_t>(d, "name", in.rows);
    in.type = column_of<int32_t>(d, "type", in.rows);
    in.start = column_of<uint64_t>(d, "start", in.rows);
    in.duration = column_of<uint64_t>(d, "duration", in.rows);
    in.layout = column_of<int32_t>(d, "layout", in.rows);
    auto names = nb::cast<size_t>(d["name_count"]);
    in.names = text_column(d["names"], names);
    in.ctrl = id_lists(d, "ctrl_offsets", "ctrl", in.rows);
    in.data = id_lists(d, "data_offsets", "data", in.rows);
    auto io = nb::cast<nb::list>(d["io"]);
    for (size_t i = 0; i < 8; ++i) in.io[i] = text_column(io[i], in.rows);
    for (size_t i = 0; i < 2; ++i) in.io_unknown[i] = text_column(io[8 + i], in.rows);
    in.raw = text_column(d["raw"], in.rows);
    in.unknown = text_column(d["unknown"], in.rows);
    for (nb::handle c : nb::cast<nb::list>(d["columns"]))
        in.attributes.push_back(value_column(nb::cast<nb::tuple>(c), in.rows));
    auto layouts = nb::cast<nb::tuple>(d["layouts"]);
    auto flags = exact<uint8_t>(layouts[0]);
    auto offsets = exact<int32_t>(layouts[1]);
    auto columns = exact<int32_t>(layouts[2]);
    auto members = exact<int8_t>(layouts[3]);
    in.layouts = {flags.data(), offsets.data(), columns.data(), members.data()};
    size_t entries = columns.size();
    if (offsets.size() != flags.size() + 1 || members.size() != entries ||
        static_cast<size_t>(offsets.data()[flags.size()]) != entries || offsets.data()[0] != 0)
        throw FormatError("layout table is not consistent");
    check_layouts(in, flags.size(), entries, names);
    return in;
}

Out<uint8_t> encode_batch(const nb::dict& d) {
    EncodeInput in = encode_input(d);
    BackWriter out(likely_size(in) + 4096);
    {
        nb::gil_scoped_release free;
        encode(in, out);
    }
    size_t n = out.size();
    uint8_t* begin = const_cast<uint8_t*>(out.begin());
    nb::capsule owner(out.release(), [](void* p) noexcept { std::free(p); });
    return Out<uint8_t>(begin, {n}, owner);
}

nb::bytes text_of(Buffer<char>& b) {
    return nb::bytes(b.data() ? b.data() : "", b.size());
}

}  // namespace

void codec(nb::module_& m) {
    nb::class_<Decoder>(m, "Decoder")
        .def("__init__",
             [](Decoder* d, const std::vector<std::tuple<std::string, int>>& known, size_t max) {
                 std::vector<KnownColumn> columns;
                 for (auto& [name, storage] : known)
                     columns.push_back({name, static_cast<Storage>(storage)});
                 new (d) Decoder(columns, max);
             })
        .def("decode",
             [](Decoder& d, Bytes data, bool last, size_t rows, size_t bytes) {
                 nb::gil_scoped_release free;
                 return d.decode(view(data), last, rows, bytes);
             })
        .def("take_batch", &take_batch)
        .def("names", &names_of)
        .def("layouts", &layouts_of)
        .def_prop_ro("column_names",
                     [](const Decoder& d) {
                         std::vector<std::string> names;
                         for (auto& c : d.attributes) names.push_back(c->name);
                         return names;
                     })
        .def_prop_ro("rows", [](const Decoder& d) { return d.nodes.rows(); })
        .def_prop_ro("started", &Decoder::started)
        .def_prop_ro("full", &Decoder::full)
        .def_prop_ro("metadata", [](const Decoder& d) -> nb::object {
            if (!d.has_metadata()) return nb::none();
            return nb::bytes(d.metadata().data(), d.metadata().size());
        });
    m.def("encode", &encode_batch);
    m.def("json_nodes", [](Bytes frames, bool first) {
        Buffer<char> out;
        {
            nb::gil_scoped_release free;
            out.reserve(frames.size() * 2);
            json_nodes(view(frames), first, out);
        }
        return text_of(out);
    });
    m.def("json_metadata", [](nb::bytes message) {
        Buffer<char> out;
        json_metadata({message.c_str(), message.size()}, out);
        return text_of(out);
    });
    m.def("check_metadata", [](nb::bytes message) {
        const auto* p = reinterpret_cast<const uint8_t*>(message.c_str());
        check_metadata({p, p + message.size()});
    });
}

}  // namespace chakra::bind
