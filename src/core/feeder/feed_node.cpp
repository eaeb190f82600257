#include "core/feeder/feed_node.hpp"

#include <algorithm>

namespace chakra {

namespace {

constexpr uint32_t kId = wire::tag(1, wire::kVarint);
constexpr uint32_t kName = wire::tag(2, wire::kBytes);
constexpr uint32_t kType = wire::tag(3, wire::kVarint);
constexpr uint32_t kStart = wire::tag(6, wire::kVarint);
constexpr uint32_t kDuration = wire::tag(7, wire::kVarint);
constexpr uint32_t kAttr = wire::tag(10, wire::kBytes);
constexpr uint32_t kCtrlField = 4;
constexpr uint32_t kDataField = 5;

// True if the tag was that of a repeated uint64 field, packed or not, whose values are now in
// `out`.
bool read_deps(uint32_t tag, uint32_t field, wire::Cursor& in, std::vector<uint64_t>& out) {
    if (tag == wire::tag(field, wire::kBytes)) {
        for (wire::Cursor packed = in.bytes(); !packed.done();) out.push_back(packed.varint());
        return true;
    }
    if (tag != wire::tag(field, wire::kVarint)) return false;
    out.push_back(in.varint());
    return true;
}

std::vector<uint64_t> deps_of(const NodeBytes& bytes, uint32_t field) {
    std::vector<uint64_t> deps;
    for (wire::Cursor in = bytes.cursor(); !in.done();) {
        uint32_t tag = in.tag();
        if (!read_deps(tag, field, in, deps)) in.skip(tag);
    }
    return deps;
}

// Decodes a list of numbers once, so that doing it later cannot fail.
void check_list(const Attribute& attribute, const uint8_t* origin) try {
    attribute.as_doubles();
} catch (const FormatError& e) {
    auto* payload = reinterpret_cast<const uint8_t*>(attribute.payload.data());
    throw FormatError(std::string("an attribute's list: ") + e.what(),
                      payload - origin + e.offset());
}

}  // namespace

NodeBytes::NodeBytes(std::span<const uint8_t> bytes)
    : data(std::make_unique_for_overwrite<uint8_t[]>(bytes.size())),
      size(static_cast<uint32_t>(bytes.size())) {
    std::copy(bytes.begin(), bytes.end(), data.get());
}

uint64_t scan_node(std::span<const uint8_t> bytes, bool ctrl, std::vector<uint64_t>& deps) {
    uint64_t id = 0;
    deps.clear();
    wire::Cursor in(bytes.data(), bytes.data() + bytes.size());
    while (!in.done()) {
        uint32_t tag = in.tag();
        if (tag == kId) {
            id = in.varint();
        } else if (tag == kAttr) {
            check_list(Attribute::parse(in.bytes()), bytes.data());
        } else if (tag >> 3 == kCtrlField) {
            size_t before = deps.size();
            if (!read_deps(tag, kCtrlField, in, deps)) in.skip(tag);
            if (!ctrl) deps.resize(before);
        } else if (!read_deps(tag, kDataField, in, deps)) {
            in.skip(tag);
        }
    }
    return id;
}

std::string node_name(const NodeBytes& bytes) {
    std::string_view name;
    for (wire::Cursor in = bytes.cursor(); !in.done();) {
        uint32_t tag = in.tag();
        if (tag == kName)
            name = in.text();
        else
            in.skip(tag);
    }
    return std::string(name);
}

FeedNode::FeedNode(NodeBytes bytes) : bytes_(std::move(bytes)) {
    for (wire::Cursor in = bytes_.cursor(); !in.done();) {
        uint32_t tag = in.tag();
        read_field(tag, in);
    }
}

void FeedNode::read_field(uint32_t tag, wire::Cursor& in) {
    switch (tag) {
        case kId: id = in.varint(); return;
        case kName: name = in.text(); return;
        case kType: type = static_cast<int32_t>(in.varint()); return;
        case kStart: start_time_micros = in.varint(); return;
        case kDuration: duration_micros = in.varint(); return;
        case kAttr: read_attribute(Attribute::parse(in.bytes())); return;
        default: in.skip(tag);
    }
}

namespace {

// Attributes that are integers, by name: they are few, and a length tells most apart.
int64_t FeedNode::* integer_field(std::string_view name) {
    switch (name.size()) {
        case 7: return name == "num_ops" ? &FeedNode::num_ops : nullptr;
        case 8:
            if (name == "comm_src") return &FeedNode::comm_src;
            if (name == "comm_dst") return &FeedNode::comm_dst;
            return name == "comm_tag" ? &FeedNode::comm_tag : nullptr;
        case 9:
            if (name == "comm_type") return &FeedNode::comm_type;
            return name == "comm_size" ? &FeedNode::comm_size : nullptr;
        case 11: return name == "tensor_size" ? &FeedNode::tensor_size : nullptr;
        case 13: return name == "comm_priority" ? &FeedNode::comm_priority : nullptr;
        default: return nullptr;
    }
}

}  // namespace

void FeedNode::read_attribute(const Attribute& attribute) {
    if (auto field = integer_field(attribute.name))
        this->*field = attribute.as_int().value_or(this->*field);
    else if (attribute.name == "is_cpu_op")
        is_cpu_op = attribute.as_int().value_or(is_cpu_op) != 0;
    else if (attribute.name == "pg_name")
        pg_name = attribute.as_text().value_or("");
}

std::vector<int64_t> FeedNode::involved_dim() const {
    auto attribute = find("involved_dim");
    if (!attribute) return {};
    return attribute->as_ints().value_or(std::vector<int64_t>{});
}

std::optional<Attribute> FeedNode::find(std::string_view wanted) const {
    std::optional<Attribute> found;
    each_attribute([&](const Attribute& attribute) {
        if (attribute.name == wanted) found = attribute;
    });
    return found;
}

std::vector<Attribute> FeedNode::attributes() const {
    std::vector<Attribute> found;
    each_attribute([&](const Attribute& attribute) { found.push_back(attribute); });
    return found;
}

template <class Visit>
void FeedNode::each_attribute(Visit visit) const {
    for (wire::Cursor in = bytes_.cursor(); !in.done();) {
        uint32_t tag = in.tag();
        if (tag == kAttr)
            visit(Attribute::parse(in.bytes()));
        else
            in.skip(tag);
    }
}

std::vector<uint64_t> FeedNode::data_deps() const {
    return deps_of(bytes_, kDataField);
}

std::vector<uint64_t> FeedNode::ctrl_deps() const {
    return deps_of(bytes_, kCtrlField);
}

}  // namespace chakra
