#include "core/readers/observer.hpp"

#include "core/error.hpp"
#include "core/readers/json.hpp"

namespace chakra {

namespace {

constexpr std::string_view kEmptyList = "[]";

struct IoText {
    std::string_view values = kEmptyList, shapes = kEmptyList, types = kEmptyList,
                     strides = kEmptyList;
};

struct Extra {
    std::string_view key, value;
};

// What one node's JSON says, as slices; put into the columns only when all of it was read.
struct NodeText {
    int64_t id = 0, parent = 0, rf_id = 0, fw_parent = 0, seq_id = -1, scope = 0, tid = 0,
            fw_tid = 0;
    std::string_view name, op_schema, kernel_backend, kernel_file, tensor_range;
    IoText in, out;
    std::vector<Extra> extras;
};

std::string_view inner(std::string_view raw) {
    return raw.size() >= 2 && raw.front() == '"' ? raw.substr(1, raw.size() - 2) : raw;
}

bool set_number(NodeText& node, std::string_view key, std::string_view raw) {
    if (key == "rf_id")
        node.rf_id = to_integer(raw, 0);
    else if (key == "fw_parent")
        node.fw_parent = to_integer(raw, 0);
    else if (key == "seq_id")
        node.seq_id = to_integer(raw, -1);
    else if (key == "scope")
        node.scope = to_integer(raw, 0);
    else if (key == "tid")
        node.tid = to_integer(raw, 0);
    else if (key == "fw_tid")
        node.fw_tid = to_integer(raw, 0);
    else
        return false;
    return true;
}

bool set_text(NodeText& node, std::string_view key, std::string_view raw) {
    if (key == "op_schema")
        node.op_schema = inner(raw);
    else if (key == "kernel_backend")
        node.kernel_backend = inner(raw);
    else if (key == "kernel_file")
        node.kernel_file = inner(raw);
    else if (key == "tensor_range")
        node.tensor_range = inner(raw);
    else
        return false;
    return true;
}

void set_attribute(NodeText& node, std::string_view key, std::string_view raw) {
    if (!set_number(node, key, raw) && !set_text(node, key, raw))
        node.extras.push_back({key, inner(raw)});
}

void read_attribute(NodeText& node, JsonCursor& in) {
    std::string_view key, raw;
    each_member(in, [&](std::string_view field, JsonCursor& at) {
        if (field == "name")
            key = at.string();
        else if (field == "value")
            raw = at.value();
        else
            at.value();
    });
    set_attribute(node, key, raw);
}

void read_io(IoText& io, JsonCursor& in) {
    each_member(in, [&](std::string_view key, JsonCursor& at) {
        std::string_view raw = at.value();
        if (key == "values")
            io.values = raw;
        else if (key == "shapes")
            io.shapes = raw;
        else if (key == "types")
            io.types = raw;
        else if (key == "strides")
            io.strides = raw;
    });
}

// Schema 1.0.1 spreads over the node itself what later ones put into inputs, outputs and attrs.
bool flat_member(NodeText& node, std::string_view key, std::string_view raw) {
    if (key == "parent")
        node.parent = to_integer(raw, 0);
    else if (key == "input_shapes")
        node.in.shapes = raw;
    else if (key == "input_types")
        node.in.types = raw;
    else if (key == "input_strides")
        node.in.strides = raw;
    else if (key == "output_shapes")
        node.out.shapes = raw;
    else if (key == "output_types")
        node.out.types = raw;
    else if (key == "output_strides")
        node.out.strides = raw;
    else
        return set_number(node, key, raw) || set_text(node, key, raw);
    return true;
}

void read_side(IoText& io, JsonCursor& at) {
    if (at.peek() == '{')
        read_io(io, at);
    else
        io.values = at.value();
}

int64_t first_integer(std::string_view raw) {
    while (!raw.empty() && (raw.front() == '[' || raw.front() == ' ')) raw.remove_prefix(1);
    return to_integer(raw, 0);
}

NodeText read_node(JsonCursor& in) {
    NodeText node;
    each_member(in, [&](std::string_view key, JsonCursor& at) {
        if (key == "id")
            node.id = at.integer(0);
        else if (key == "name")
            node.name = at.string();
        else if (key == "ctrl_deps")
            node.parent = first_integer(at.value());
        else if (key == "inputs")
            read_side(node.in, at);
        else if (key == "outputs")
            read_side(node.out, at);
        else if (key == "attrs")
            each_item(at, [&](JsonCursor& item) { read_attribute(node, item); });
        else
            flat_member(node, key, at.value());
    });
    return node;
}

// A tensor is written as [id, storage, offset, elements, item size, "device"].
struct TensorScan {
    ObserverColumns& out;
    int32_t node;
    int8_t is_output;

    // Arguments nest a few levels; deeper text is no tensor, and is not to exhaust the stack.
    static constexpr int kDeepest = 32;

    void list(JsonCursor& in, int depth = 0) {
        int64_t numbers[5];
        int count = 0;
        bool plain = true;
        each_item(in, [&](JsonCursor& at) {
            char c = at.peek();
            if (c == '[') {
                if (depth < kDeepest)
                    list(at, depth + 1);
                else
                    at.value();
                plain = false;
            } else if (c == '"' && plain && count == 5) {
                push(numbers, at.string());
                plain = false;
            } else if (c == '"' || count == 5) {
                at.value();
                plain = false;
            } else {
                numbers[count++] = at.integer(-1);
            }
        });
    }

    void push(const int64_t (&n)[5], std::string_view device) {
        out.tensor_node.push_back(node);
        out.tensor_is_output.push_back(is_output);
        out.tensor_id.push_back(n[0]);
        out.tensor_storage.push_back(n[1]);
        out.tensor_offset.push_back(n[2]);
        out.tensor_elements.push_back(n[3]);
        out.tensor_itemsize.push_back(n[4]);
        out.tensor_device.push_back(out.texts.intern(device));
    }
};

void scan_tensors(ObserverColumns& out, std::string_view values, bool is_output, bool tolerant) {
    if (values.size() < 2 || values.front() != '[') return;
    JsonCursor in(values, 0, tolerant);
    int32_t node = static_cast<int32_t>(out.id.size());
    TensorScan{out, node, static_cast<int8_t>(is_output)}.list(in);
}

int32_t text(ObserverColumns& out, std::string_view raw) {
    return raw.find('\\') == raw.npos ? out.texts.intern(raw) : out.texts.intern(unescape(raw));
}

void push_numbers(ObserverColumns& out, const NodeText& node) {
    out.id.push_back(node.id);
    out.parent.push_back(node.parent);
    out.rf_id.push_back(node.rf_id);
    out.fw_parent.push_back(node.fw_parent);
    out.seq_id.push_back(node.seq_id);
    out.scope.push_back(node.scope);
    out.tid.push_back(node.tid);
    out.fw_tid.push_back(node.fw_tid);
}

void push_texts(ObserverColumns& out, const NodeText& node) {
    out.name.push_back(text(out, node.name));
    out.op_schema.push_back(text(out, node.op_schema));
    out.kernel_backend.push_back(text(out, node.kernel_backend));
    out.kernel_file.push_back(text(out, node.kernel_file));
    out.tensor_range.push_back(text(out, node.tensor_range));
    out.in_values.push(node.in.values);
    out.out_values.push(node.out.values);
    out.in_shapes.push_back(out.texts.intern(node.in.shapes));
    out.in_types.push_back(out.texts.intern(node.in.types));
    out.in_strides.push_back(out.texts.intern(node.in.strides));
    out.out_shapes.push_back(out.texts.intern(node.out.shapes));
    out.out_types.push_back(out.texts.intern(node.out.types));
    out.out_strides.push_back(out.texts.intern(node.out.strides));
}

void push(ObserverColumns& out, const NodeText& node, bool tolerant) {
    scan_tensors(out, node.in.values, false, tolerant);
    scan_tensors(out, node.out.values, true, tolerant);
    for (const Extra& e : node.extras) {
        out.extra_node.push_back(static_cast<int32_t>(out.id.size()));
        out.extra_key.push_back(text(out, e.key));
        out.extra_value.push_back(text(out, e.value));
    }
    push_numbers(out, node);
    push_texts(out, node);
}

// Takes back the tensors of a node that turned out to be unreadable half-way.
void forget_tensors(ObserverColumns& out, size_t kept) {
    out.tensor_node.resize(kept);
    out.tensor_is_output.resize(kept);
    out.tensor_id.resize(kept);
    out.tensor_storage.resize(kept);
    out.tensor_offset.resize(kept);
    out.tensor_elements.resize(kept);
    out.tensor_itemsize.resize(kept);
    out.tensor_device.resize(kept);
}

// Where the next node seems to begin after one that cannot be read, or npos.
size_t next_node(std::string_view text, size_t from) {
    for (size_t at = text.find('{', from + 1); at != text.npos; at = text.find('{', at + 1)) {
        size_t key = text.find_first_not_of(" \n\r\t", at + 1);
        if (key == text.npos) return text.npos;
        if (text.substr(key, 4) == "\"id\"") return at;
        // Old files put the name first; the id then follows within the same few lines.
        std::string_view near = text.substr(key, 512);
        if (near.starts_with("\"name\"") && near.find("\"id\"") < near.find('}')) return at;
    }
    return text.npos;
}

void read_nodes(ObserverColumns& out, std::string_view text, JsonCursor& in) {
    auto read = [&](JsonCursor& at) {
        size_t tensors = out.tensor_node.size();
        try {
            NodeText node = read_node(at);
            push(out, node, at.tolerant());
        } catch (const JsonError&) {
            forget_tensors(out, tensors);
            throw;
        }
    };
    read_objects(out, text, in, read, next_node);
}

bool top_member(ObserverColumns& out, std::string_view text, std::string_view key, JsonCursor& in) {
    if (key == "nodes")
        read_nodes(out, text, in);
    else if (key == "schema")
        out.schema = out.texts.intern(in.string());
    else if (key == "pid")
        out.pid = in.integer(-1);
    else if (key == "start_ts")
        out.start_ts = in.integer(-1);
    else if (key == "finish_ts")
        out.finish_ts = in.integer(-1);
    else
        in.value();
    return !out.truncated;
}

}  // namespace

ObserverColumns read_observer(std::string_view text) {
    ObserverColumns out;
    JsonCursor in(text, 0);
    try {
        in.expect('{');
        bool more = !in.accept('}');
        while (more) {
            std::string_view key = in.string();
            in.expect(':');
            more = top_member(out, text, key, in) && in.accept(',');
        }
    } catch (const JsonError& e) {
        if (!e.at_end || out.id.empty())
            throw FormatError("not an execution trace: the JSON cannot be read",
                              static_cast<int64_t>(e.at));
        out.truncated = true;
    }
    return out;
}

}  // namespace chakra
