#include "core/codec/json_text.hpp"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "core/codec/json_writer.hpp"
#include "core/codec/schema_check.hpp"
#include "core/wire/member.hpp"

namespace chakra {

using wire::Cursor;
using wire::tag;

namespace {

// By oneof member, from member::kFirst on.
constexpr std::string_view kMemberKeys[] = {
    "double_val",  "double_list",  "float_val",    "float_list",    "int32_val",    "int32_list",
    "int64_val",   "int64_list",   "uint32_val",   "uint32_list",   "uint64_val",   "uint64_list",
    "sint32_val",  "sint32_list",  "sint64_val",   "sint64_list",   "fixed32_val",  "fixed32_list",
    "fixed64_val", "fixed64_list", "sfixed32_val", "sfixed32_list", "sfixed64_val", "sfixed64_list",
    "bool_val",    "bool_list",    "string_val",   "string_list",   "bytes_val",    "bytes_list"};
constexpr const char* kNodeTypes[] = {"INVALID_NODE",   "METADATA_NODE", "MEM_LOAD_NODE",
                                      "MEM_STORE_NODE", "COMP_NODE",     "COMM_SEND_NODE",
                                      "COMM_RECV_NODE", "COMM_COLL_NODE"};
constexpr uint64_t kPlainNan = 0x7ff8000000000000u;

// An attribute's parts, as the protobuf runtime would merge them.
struct Attribute {
    std::string_view name, doc;
    bool has_doc = false;
    int member = 0;
    std::vector<Cursor> payloads;  // of `member`: one, or several list messages to be merged
    bool exact = true;             // whether JSON can hold all of it

    // As new, with its memory kept.
    void reset() {
        name = doc = {};
        has_doc = false;
        member = 0;
        payloads.clear();
        exact = true;
    }
};

bool odd_nan(Cursor c, int scalar) {
    double v = 0;
    uint64_t bits = 0;
    if (scalar == member::kFloat) return !read_double(c, scalar, v);
    bits = c.fixed64();
    std::memcpy(&v, &bits, 8);
    return std::isnan(v) && bits != kPlainNan;
}

bool exact_reals(Cursor c, int m) {
    int scalar = member::scalar_of(m);
    if (scalar != member::kDouble && scalar != member::kFloat) return true;
    if (!member::is_list(m)) return !odd_nan(c, scalar);
    wire::Type type = member::element_wire(m);
    while (!c.done()) {
        uint32_t t = c.tag();
        Cursor elements = t == tag(1, wire::kBytes) ? c.bytes() : c;
        do {
            if (elements.done()) break;
            if (odd_nan(elements, scalar)) return false;
            elements.skip(tag(1, type));
        } while (t == tag(1, wire::kBytes));
        if (t != tag(1, wire::kBytes)) c.skip(t);
    }
    return true;
}

// Whether every field of a list message is an element.
bool only_elements(Cursor c, int m) {
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t != tag(1, wire::kBytes) && t != tag(1, member::element_wire(m))) return false;
        c.skip(t);
    }
    return true;
}

void take_value(Attribute& a, Cursor& c, uint32_t t) {
    int m = static_cast<int>(t >> 3);
    bool list = member::is_list(m);
    if (a.member != m || !list) a.payloads.clear();
    a.member = m;
    if (list) {
        a.payloads.push_back(c.bytes());
        a.exact = a.exact && only_elements(a.payloads.back(), m);
    } else {
        a.payloads.push_back(c);
        c.skip(t);
    }
    a.exact = a.exact && exact_reals(a.payloads.back(), m);
}

void parse_attribute(Cursor c, Attribute& a) {
    a.reset();
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t == tag(member::kName, wire::kBytes))
            a.name = c.text();
        else if (t == tag(member::kDocString, wire::kBytes))
            a.doc = c.text(), a.has_doc = true;
        else if (member::is_value(t >> 3) && (t & 7) == member::wire_type(static_cast<int>(t >> 3)))
            take_value(a, c, t);
        else
            c.skip(t), a.exact = false;
    }
}

void put_element(Json& j, Cursor& c, int scalar) {
    int64_t i = 0;
    switch (scalar) {
        case member::kDouble: {
            double d = 0;
            read_double(c, scalar, d);
            return j.real(d);
        }
        case member::kFloat: return j.real(std::bit_cast<float>(c.fixed32()));
        case member::kUint64: return j.number(c.varint());
        case member::kFixed64: return j.number(c.fixed64());
        case member::kBool: return j.plain(c.varint() ? "true" : "false");
        case member::kString: return j.string(c.text());
        case member::kBytes: return j.base64(c.text());
        default: read_int(c, scalar, i); return j.number(i);
    }
}

void put_list(Json& j, Cursor c, int scalar) {
    bool packable = member::element_wire(scalar) != wire::kBytes;
    while (!c.done()) {
        uint32_t t = c.tag();
        if (packable && t == tag(1, wire::kBytes)) {
            for (Cursor packed = c.bytes(); !packed.done();)
                j.next(), put_element(j, packed, scalar);
        } else {
            j.next();
            put_element(j, c, scalar);
        }
    }
}

void put_value(Json& j, const Attribute& a) {
    int scalar = member::scalar_of(a.member);
    j.key(kMemberKeys[a.member - member::kFirst]);
    if (!member::is_list(a.member)) {
        Cursor c = a.payloads.back();
        return put_element(j, c, scalar);
    }
    j.open('[');
    for (const Cursor& c : a.payloads) put_list(j, c, scalar);
    j.close(']');
}

void put_attribute(Json& j, Cursor c, Attribute& a) {
    parse_attribute(c, a);
    j.next();
    j.open('{');
    j.key("name");
    j.string(a.name);
    if (!a.exact) {
        j.key("raw");
        j.base64(c.rest());
    } else {
        if (a.has_doc) j.key("doc_string"), j.string(a.doc);
        if (a.member) put_value(j, a);
    }
    j.close('}');
}

void put_attributes(Json& j, const std::vector<Cursor>& attributes) {
    if (attributes.empty()) return;
    j.key("attr");
    j.open('[');
    Attribute reused;
    for (const Cursor& c : attributes) put_attribute(j, c, reused);
    j.close(']');
}

struct Io {
    bool present = false;
    std::string_view text[4];
    std::string unknown;

    void reset() {
        present = false;
        for (std::string_view& t : text) t = {};
        unknown.clear();
    }
};

struct Node {
    uint64_t id = 0, start = 0, duration = 0;
    std::string_view name;
    int32_t type = 0;
    std::vector<uint64_t> ctrl, data;
    Io inputs, outputs;
    std::vector<Cursor> attributes;
    std::string unknown;

    // As new, with its memory kept.
    void reset() {
        id = start = duration = 0;
        name = {};
        type = 0;
        ctrl.clear(), data.clear(), attributes.clear(), unknown.clear();
        inputs.reset(), outputs.reset();
    }
};

std::string_view field_bytes(const uint8_t* start, const Cursor& c) {
    return {reinterpret_cast<const char*>(start), static_cast<size_t>(c.at() - start)};
}

void parse_io(Cursor c, Io& io) {
    io.present = true;
    while (!c.done()) {
        const uint8_t* start = c.at();
        uint32_t t = c.tag();
        uint32_t field = t >> 3;
        if (field <= 4 && (t & 7) == wire::kBytes) {
            std::string_view text = c.text();
            if (field < 4 || is_strides(text, io.text[3], io.unknown)) {
                io.text[field - 1] = text;
                continue;
            }
        } else {
            c.skip(t);
        }
        io.unknown += field_bytes(start, c);
    }
}

void parse_ids(Cursor c, std::vector<uint64_t>& ids) {
    while (!c.done()) ids.push_back(c.varint());
}

void parse_node(Cursor c, Node& n) {
    n.reset();
    while (!c.done()) {
        const uint8_t* start = c.at();
        uint32_t t = c.tag();
        switch (t) {
            case tag(1, wire::kVarint): n.id = c.varint(); break;
            case tag(2, wire::kBytes): n.name = c.text(); break;
            case tag(3, wire::kVarint): n.type = static_cast<int32_t>(c.varint()); break;
            case tag(4, wire::kVarint): n.ctrl.push_back(c.varint()); break;
            case tag(4, wire::kBytes): parse_ids(c.bytes(), n.ctrl); break;
            case tag(5, wire::kVarint): n.data.push_back(c.varint()); break;
            case tag(5, wire::kBytes): parse_ids(c.bytes(), n.data); break;
            case tag(6, wire::kVarint): n.start = c.varint(); break;
            case tag(7, wire::kVarint): n.duration = c.varint(); break;
            case tag(8, wire::kBytes): parse_io(c.bytes(), n.inputs); break;
            case tag(9, wire::kBytes): parse_io(c.bytes(), n.outputs); break;
            case tag(10, wire::kBytes): n.attributes.push_back(c.bytes()); break;
            default: c.skip(t); n.unknown += field_bytes(start, c);
        }
    }
}

void put_ids(Json& j, std::string_view key, const std::vector<uint64_t>& ids) {
    if (ids.empty()) return;
    j.key(key);
    j.open('[');
    for (uint64_t id : ids) j.next(), j.number(id);
    j.close(']');
}

void put_io(Json& j, std::string_view key, const Io& io) {
    static constexpr const char* kFields[] = {"values", "shapes", "types", "strides"};
    if (!io.present) return;
    j.key(key);
    j.open('{');
    for (int i = 0; i < 4; ++i)
        if (!io.text[i].empty()) j.key(kFields[i]), j.string(io.text[i]);
    if (!io.unknown.empty()) j.key("unknown"), j.base64(io.unknown);
    j.close('}');
}

void put_node(Json& j, const Node& n) {
    j.open('{');
    j.key("id"), j.number(n.id);
    j.key("name"), j.string(n.name);
    j.key("type");
    if (n.type >= 0 && n.type < 8)
        j.string(kNodeTypes[n.type]);
    else
        j.number(n.type);
    put_ids(j, "ctrl_deps", n.ctrl);
    put_ids(j, "data_deps", n.data);
    if (n.start) j.key("start_time_micros"), j.number(n.start);
    if (n.duration) j.key("duration_micros"), j.number(n.duration);
    put_io(j, "inputs", n.inputs);
    put_io(j, "outputs", n.outputs);
    put_attributes(j, n.attributes);
    if (!n.unknown.empty()) j.key("unknown"), j.base64(n.unknown);
    j.close('}');
}

Cursor cursor(std::string_view s) {
    const auto* p = reinterpret_cast<const uint8_t*>(s.data());
    return {p, p + s.size()};
}

}  // namespace

void json_nodes(std::string_view frames, bool first, Buffer<char>& out) {
    Json j(out);
    Node reused;
    for (Cursor c = cursor(frames); !c.done(); first = false) {
        if (!first) out.append(",\n");
        parse_node(c.bytes(), reused);
        put_node(j, reused);
    }
}

void json_metadata(std::string_view message, Buffer<char>& out) {
    Json j(out);
    std::string_view version;
    std::string unknown;
    std::vector<Cursor> attributes;
    for (Cursor c = cursor(message); !c.done();) {
        const uint8_t* start = c.at();
        uint32_t t = c.tag();
        if (t == tag(1, wire::kBytes))
            version = c.text();
        else if (t == tag(2, wire::kBytes))
            attributes.push_back(c.bytes());
        else
            c.skip(t), unknown += field_bytes(start, c);
    }
    j.open('{');
    if (!version.empty()) j.key("version"), j.string(version);
    put_attributes(j, attributes);
    if (!unknown.empty()) j.key("unknown"), j.base64(unknown);
    j.close('}');
}

}  // namespace chakra
