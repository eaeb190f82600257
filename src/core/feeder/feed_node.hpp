// One node as the feeder gives it out: its bytes, and the fields simulators ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/attribute.hpp"

namespace chakra {

// A node's bytes as they were in the file.
struct NodeBytes {
    std::unique_ptr<uint8_t[]> data;
    uint32_t size = 0;

    explicit NodeBytes(std::span<const uint8_t> bytes);
    NodeBytes() = default;
    wire::Cursor cursor() const { return {data.get(), data.get() + size}; }
};

// What the resolver needs of a node. `deps` is cleared first and holds data_deps and, if asked for,
// ctrl_deps, in the order of the file. Checks the whole message, attributes and lists too, so that
// nothing read from it later can fail. Throws FormatError.
uint64_t scan_node(std::span<const uint8_t> bytes, bool ctrl, std::vector<uint64_t>& deps);

std::string node_name(const NodeBytes& bytes);

// A field or attribute that is absent, or whose value is of another kind, has the default below.
class FeedNode {
   public:
    explicit FeedNode(NodeBytes bytes);

    uint64_t id = 0;
    std::string name;
    int32_t type = 0;
    uint64_t start_time_micros = 0;
    uint64_t duration_micros = 0;
    bool is_cpu_op = false;
    int64_t num_ops = 0;
    int64_t tensor_size = 0;
    int64_t comm_type = -1;
    int64_t comm_size = 0;
    int64_t comm_src = -1;
    int64_t comm_dst = -1;
    int64_t comm_tag = 0;
    int64_t comm_priority = 0;
    std::string pg_name;

    // Empty if the trace says nothing, which means all dimensions.
    std::vector<int64_t> involved_dim() const;
    // The last of several attributes of that name, as for protobuf's fields.
    std::optional<Attribute> find(std::string_view name) const;
    std::vector<Attribute> attributes() const;
    std::vector<uint64_t> data_deps() const;
    std::vector<uint64_t> ctrl_deps() const;
    std::string_view bytes() const { return bytes_.cursor().rest(); }

   private:
    void read_field(uint32_t tag, wire::Cursor& in);
    void read_attribute(const Attribute& attribute);
    template <class Visit>
    void each_attribute(Visit visit) const;

    NodeBytes bytes_;
};

}  // namespace chakra
