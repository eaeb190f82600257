#include "core/astra/load/load.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <numeric>

#include "core/astra/model/error.hpp"
#include "core/wire/attribute.hpp"
#include "core/wire/member.hpp"

namespace chakra::astra {

namespace {

using wire::Cursor;

struct File {
    explicit File(const std::string& path) : handle(std::fopen(path.c_str(), "rb")) {
        if (handle == nullptr) {
            throw SimulationError(path +
                                  ": cannot be opened; a workload has one file PREFIX.N.et "
                                  "for every rank N of the network");
        }
    }
    ~File() { std::fclose(handle); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    std::FILE* handle;
};

void read_all(const std::string& path, std::vector<uint8_t>& bytes) {
    File file(path);
    std::setvbuf(file.handle, nullptr, _IONBF, 0);
    size_t have = 0;
    bytes.resize(std::max<size_t>(bytes.capacity(), 4096));
    while (true) {
        size_t got = std::fread(bytes.data() + have, 1, bytes.size() - have, file.handle);
        have += got;
        if (have < bytes.size()) break;
        bytes.resize(bytes.size() * 2);
    }
    bytes.resize(have);
}

struct Digest {
    uint64_t size;
    uint64_t a;
    uint64_t b;
    auto operator<=>(const Digest&) const = default;
};

// Two unlike 64-bit mixes over eight bytes at a time.
Digest digest(const std::vector<uint8_t>& bytes) {
    Digest d{bytes.size(), 0x243f6a8885a308d3ull, 0x13198a2e03707344ull};
    for (size_t i = 0; i < bytes.size(); i += 8) {
        uint64_t w = 0;
        std::memcpy(&w, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
        d.a = (d.a ^ w) * 0x9e3779b97f4a7c15ull;
        d.a ^= d.a >> 32;
        d.b = (d.b + w) * 0xd6e8feb86659fd93ull;
        d.b ^= d.b >> 29;
    }
    return d;
}

int64_t integer_of(const Attribute& attribute) {
    if (auto value = attribute.as_int()) return *value;
    throw FormatError("attribute `" + std::string(attribute.name) + "` is not an integer");
}

std::string_view text_of(const Attribute& attribute) {
    if (attribute.member == member::kString) return attribute.payload;
    throw FormatError("attribute `" + std::string(attribute.name) + "` is not a string");
}

// Bit k says whether dimension k takes part; a network has far fewer than 32.
uint32_t mask_of(const Attribute& attribute) {
    if (attribute.member != member::kBool + 1)
        throw FormatError("attribute `" + std::string(attribute.name) +
                          "` is not a list of booleans");
    std::vector<int64_t> taken = *attribute.as_ints();
    uint32_t mask = 0;
    for (size_t k = 0; k < std::min<size_t>(taken.size(), 32); ++k)
        if (taken[k] != 0) mask |= 1u << k;
    return mask;
}

int64_t group_of(std::string_view text) {
    if (text.empty()) return 0;
    int64_t id = 0;
    auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (bad != std::errc() || end != text.data() + text.size() || id < 0) {
        throw FormatError("`pg_name` \"" + std::string(text) +
                          "\" is not the number of a communicator group");
    }
    return id;
}

struct Field {
    std::string_view name;
    uint32_t bit;
    void (*set)(Attributes&, int64_t);
};

constexpr Field kFields[] = {
    {"comm_size", Attributes::kCommSize,
     [](Attributes& a, int64_t v) { a.comm_size = static_cast<uint64_t>(v); }},
    {"comm_type", Attributes::kCommType, [](Attributes& a, int64_t v) { a.comm_type = v; }},
    {"num_ops", Attributes::kNumOps,
     [](Attributes& a, int64_t v) { a.num_ops = static_cast<uint64_t>(v); }},
    {"tensor_size", Attributes::kTensorSize,
     [](Attributes& a, int64_t v) { a.tensor_size = static_cast<uint64_t>(v); }},
    {"comm_src", Attributes::kSrc, [](Attributes& a, int64_t v) { a.src = v; }},
    {"comm_dst", Attributes::kDst, [](Attributes& a, int64_t v) { a.dst = v; }},
    {"comm_tag", Attributes::kTag, [](Attributes& a, int64_t v) { a.tag = v; }},
};

// Keeps what the simulator knows of; other attributes may be anything.
void keep(const Attribute& attribute, Attributes& a, uint8_t& cpu) {
    std::string_view name = attribute.name;
    if (name == "is_cpu_op") {
        cpu = integer_of(attribute) != 0;
    } else if (name == "pg_name") {
        a.group = group_of(text_of(attribute));
        a.has |= Attributes::kGroup;
    } else if (name == "involved_dim") {
        a.dims = mask_of(attribute);
        a.has |= Attributes::kDims;
    }
    for (const Field& field : kFields) {
        if (name != field.name) continue;
        field.set(a, integer_of(attribute));
        a.has |= field.bit;
    }
}

void read_deps(Cursor& c, uint32_t tag, std::vector<uint64_t>& deps) {
    if ((tag & 7) == wire::kVarint) {
        deps.push_back(c.varint());
        return;
    }
    Cursor packed = c.bytes();
    while (!packed.done()) deps.push_back(packed.varint());
}

std::string read_values(Cursor c) {
    std::string text;
    while (!c.done()) {
        uint32_t tag = c.tag();
        if (tag == wire::tag(1, wire::kBytes)) {
            text = std::string(c.text());
        } else {
            c.skip(tag);
        }
    }
    return text;
}

// One node's fields while they are read, in whatever order they come.
struct NodeFields {
    uint64_t id = 0;
    uint64_t micros = 0;
    int32_t type = 0;
    uint8_t cpu = 0;
    Attributes attributes;
    Cursor inputs;
};

void read_field(Cursor& c, uint32_t tag, NodeFields& node, std::vector<uint64_t>& deps) {
    switch (tag) {
        case wire::tag(1, wire::kVarint): node.id = c.varint(); break;
        case wire::tag(3, wire::kVarint): node.type = static_cast<int32_t>(c.varint()); break;
        case wire::tag(4, wire::kVarint):
        case wire::tag(4, wire::kBytes):
        case wire::tag(5, wire::kVarint):
        case wire::tag(5, wire::kBytes): read_deps(c, tag, deps); break;
        case wire::tag(7, wire::kVarint): node.micros = c.varint(); break;
        case wire::tag(8, wire::kBytes): node.inputs = c.bytes(); break;
        case wire::tag(10, wire::kBytes):
            keep(Attribute::parse(c.bytes()), node.attributes, node.cpu);
            break;
        default: c.skip(tag);
    }
}

void read_node(Cursor c, RawGraph& g) {
    NodeFields node{.inputs = Cursor(c.at(), c.at())};
    while (!c.done()) read_field(c, c.tag(), node, g.deps);
    bool has = node.attributes.has != 0;
    g.id.push_back(node.id);
    g.type.push_back(node.type);
    g.cpu.push_back(node.cpu);
    g.micros.push_back(node.micros);
    g.first_dep.push_back(g.deps.size());
    g.attributes.push_back(has ? static_cast<uint32_t>(g.rows.size()) : kNone);
    if (has) g.rows.push_back(node.attributes);
    if (node.type == static_cast<int32_t>(Kind::Metadata) && !node.inputs.done()) {
        g.texts.push_back({node.id, read_values(node.inputs)});
    }
}

RawGraph read_graph(const std::vector<uint8_t>& bytes) {
    RawGraph g;
    Cursor c(bytes.data(), bytes.data() + bytes.size());
    if (!c.done()) c.bytes();  // the file's own metadata
    while (!c.done()) read_node(c.bytes(), g);
    return g;
}

Body read_body(const std::string& path, std::vector<uint8_t>& bytes, Rank rank, bool lenient) {
    try {
        return build(read_graph(bytes), path, rank, lenient);
    } catch (const FormatError& e) {
        std::string at = e.offset() >= 0 ? " at byte " + std::to_string(e.offset()) : "";
        throw SimulationError(path + at + ": " + e.what());
    }
}

}  // namespace

Program load(const std::vector<std::string>& paths, bool lenient) {
    Program program;
    std::map<Digest, uint32_t> known;
    std::vector<uint8_t> bytes;
    for (const std::string& path : paths) {
        read_all(path, bytes);
        auto [it, fresh] =
            known.try_emplace(digest(bytes), static_cast<uint32_t>(program.bodies.size()));
        if (fresh) {
            Rank rank = static_cast<Rank>(program.body_of.size());
            program.bodies.push_back(std::make_shared<Body>(read_body(path, bytes, rank, lenient)));
        }
        const Body& body = *program.bodies[it->second];
        if (body.own_rank != kNone && body.own_rank != program.ranks()) {
            throw SimulationError(path + ": its sends or receives say that they run on rank " +
                                  std::to_string(body.own_rank));
        }
        program.body_of.push_back(it->second);
    }
    return program;
}

Body load_custom(const std::string& path, bool lenient) {
    std::vector<uint8_t> bytes;
    read_all(path, bytes);
    return read_body(path, bytes, kNone, lenient);
}

}  // namespace chakra::astra
