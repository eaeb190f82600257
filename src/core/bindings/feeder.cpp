// core.Feeder, core.FeedNode and core.Frontier; chakrakit.trace.storage.feeder says what they are
// for.
#include "core/feeder/feeder.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "core/bindings/bind.hpp"
#include "core/error.hpp"

namespace chakra::bind {

namespace {

nb::bytes to_bytes(std::string_view text) {
    return nb::bytes(text.data(), text.size());
}

// Files may hold names that are not UTF-8: the bad bytes become U+FFFD.
nb::object to_str(std::string_view text) {
    auto size = static_cast<Py_ssize_t>(text.size());
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), size, "replace"));
}

constexpr uint32_t kUint64 = 13, kFixed64 = 21, kBool = 27, kString = 29, kBoolList = 28;

nb::object to_python(const Attribute& a) {
    if (auto v = a.as_int()) {
        if (a.member == kBool) return nb::bool_(*v != 0);
        bool wide = a.member == kUint64 || a.member == kFixed64;
        return wide ? nb::int_(static_cast<uint64_t>(*v)) : nb::int_(*v);
    }
    if (auto v = a.as_double()) return nb::float_(*v);
    if (auto v = a.as_text()) return a.member == kString ? to_str(*v) : nb::object(to_bytes(*v));
    if (auto v = a.as_ints()) {
        if (a.member == kUint64 + 1 || a.member == kFixed64 + 1)
            return nb::cast(std::vector<uint64_t>(v->begin(), v->end()));
        return a.member == kBoolList ? nb::cast(std::vector<bool>(v->begin(), v->end()))
                                     : nb::cast(*v);
    }
    if (auto v = a.as_doubles()) return nb::cast(*v);
    return a.member ? nb::object(to_bytes(a.payload)) : nb::none();
}

nb::object attribute(const FeedNode& node, std::string_view name, nb::object absent) {
    auto found = node.find(name);
    return found ? to_python(*found) : absent;
}

nb::dict attributes(const FeedNode& node) {
    nb::dict all;
    for (const Attribute& a : node.attributes()) all[to_str(a.name)] = to_python(a);
    return all;
}

// A file's name as the system spells it, which need not be UTF-8.
std::string file_name(nb::handle path) {
    nb::bytes name = nb::steal<nb::bytes>(PyUnicode_EncodeFSDefault(path.ptr()));
    if (!name.is_valid()) nb::raise_python_error();
    return {name.c_str(), name.size()};
}

// A Python callable read(n) -> bytes as a source of bytes.
ByteReader reader(nb::callable read) {
    return [read](uint8_t* buffer, size_t n) {
        nb::bytes got = nb::cast<nb::bytes>(read(n));
        // The frame reader refuses a size that is too large, and reads nothing of it.
        if (got.size() <= n) std::memcpy(buffer, got.data(), got.size());
        return got.size();
    };
}

// One row of FEED_DTYPE in chakrakit.trace.storage.feeder. An array of rows rather than one array
// per field: a simulator's batches are often of one node, where a dozen arrays would cost more than
// the node.
struct Row {
    uint64_t id, start_time_micros, duration_micros;
    int64_t num_ops, tensor_size, comm_type, comm_size, comm_src, comm_dst, comm_tag, comm_priority;
    int32_t type;
    bool is_cpu_op;

    explicit Row(const FeedNode& n)
        : id(n.id),
          start_time_micros(n.start_time_micros),
          duration_micros(n.duration_micros),
          num_ops(n.num_ops),
          tensor_size(n.tensor_size),
          comm_type(n.comm_type),
          comm_size(n.comm_size),
          comm_src(n.comm_src),
          comm_dst(n.comm_dst),
          comm_tag(n.comm_tag),
          comm_priority(n.comm_priority),
          type(n.type),
          is_cpu_op(n.is_cpu_op) {}
};

// All or nothing: if reading fails on the way, what was taken is put back.
std::vector<Row> take_rows(Feeder& feeder, size_t n) {
    std::vector<Row> rows;
    try {
        while (rows.size() < n) {
            auto node = feeder.take();
            if (!node) break;
            rows.emplace_back(*node);
        }
    } catch (...) {
        for (const Row& row : rows) feeder.push_back(row.id);
        throw;
    }
    return rows;
}

Out<uint8_t> take_batch(Feeder& feeder, size_t n) {
    auto* kept = new std::vector<Row>(take_rows(feeder, n));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Row>*>(p); });
    return Out<uint8_t>(kept->data(), {kept->size() * sizeof(Row)}, owner);
}

// A column of a batch has gaps between its values: no copy is made to close them.
using Strided = nb::ndarray<const uint64_t, nb::ndim<1>, nb::device::cpu>;

void done_batch(Feeder& feeder, Strided ids) {
    auto view = ids.view();
    for (size_t i = 0; i < view.shape(0); ++i) feeder.done(view(i));
}

void add_batch(Frontier& frontier, In<uint64_t> ids, In<int64_t> offsets, In<uint64_t> deps,
               bool drain) {
    size_t n = ids.shape(0);
    if (offsets.shape(0) != n + 1)
        throw nb::value_error("offsets must have one entry more than ids");
    for (size_t i = 0; i < n; ++i) {
        int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
        if (begin < 0 || begin > end || end > static_cast<int64_t>(deps.shape(0)))
            throw nb::value_error("offsets must ascend within deps");
        frontier.add(ids.data()[i], {deps.data() + begin, deps.data() + end});
        if (drain) frontier.drain();
    }
}

nb::list missing(const Frontier& frontier, size_t cap, size_t waiters) {
    nb::list found;
    for (auto& each : frontier.missing(cap, waiters))
        found.append(nb::make_tuple(each.id, nb::cast(each.waiters)));
    return found;
}

void bind_node(nb::module_& m) {
    nb::class_<FeedNode>(
        m, "FeedNode",
        "A node of a feeder, valid for as long as it is held. What the trace does not "
        "say is 0, False or '', but -1 for comm_type, comm_src and comm_dst; an empty "
        "involved_dim means all dimensions. attr(name, absent) and attrs give any "
        "attribute as a Python value, bytes the node as it is in the file.")
        .def_ro("id", &FeedNode::id)
        .def_prop_ro("name", [](const FeedNode& n) { return to_str(n.name); })
        .def_ro("type", &FeedNode::type)
        .def_ro("start_time_micros", &FeedNode::start_time_micros)
        .def_ro("duration_micros", &FeedNode::duration_micros)
        .def_ro("is_cpu_op", &FeedNode::is_cpu_op)
        .def_ro("num_ops", &FeedNode::num_ops)
        .def_ro("tensor_size", &FeedNode::tensor_size)
        .def_ro("comm_type", &FeedNode::comm_type)
        .def_ro("comm_size", &FeedNode::comm_size)
        .def_ro("comm_src", &FeedNode::comm_src)
        .def_ro("comm_dst", &FeedNode::comm_dst)
        .def_ro("comm_tag", &FeedNode::comm_tag)
        .def_ro("comm_priority", &FeedNode::comm_priority)
        .def_prop_ro("pg_name", [](const FeedNode& n) { return to_str(n.pg_name); })
        .def_prop_ro("involved_dim",
                     [](const FeedNode& n) {
                         auto dims = n.involved_dim();
                         return nb::cast(std::vector<bool>(dims.begin(), dims.end()));
                     })
        .def_prop_ro("data_deps", &FeedNode::data_deps)
        .def_prop_ro("ctrl_deps", &FeedNode::ctrl_deps)
        .def_prop_ro("bytes", [](const FeedNode& n) { return to_bytes(n.bytes()); })
        .def("attr", &attribute, nb::arg("name"), nb::arg("absent") = nb::none())
        .def_prop_ro("attrs", &attributes);
}

using NodePtr = std::shared_ptr<const FeedNode>;

void bind_feeder(nb::module_& m) {
    nb::class_<Feeder>(m, "Feeder")
        .def(
            "__init__",
            [](Feeder* self, nb::object source, uint64_t window, bool ctrl, bool ignore_missing) {
                ByteReader read = nb::isinstance<nb::str>(source)
                                      ? open_file(file_name(source))
                                      : reader(nb::cast<nb::callable>(source));
                new (self) Feeder(std::move(read), {window, ctrl, ignore_missing});
            },
            nb::arg("source"), nb::arg("window"), nb::arg("ctrl"), nb::arg("ignore_missing"))
        .def("take", [](Feeder& f) { return f.take(); })
        .def("take_id", [](Feeder& f, uint64_t id) { return f.take(id); })
        .def("take_batch", &take_batch)
        .def("push_back", &Feeder::push_back)
        .def("done", &Feeder::done)
        .def("done_batch", &done_batch)
        .def("close", &Feeder::close)
        .def("finished", &Feeder::finished)
        .def("ready", [](Feeder& f) { return to_numpy(f.ready_ids()); })
        .def("in_flight", &Feeder::in_flight)
        .def("lookup", &Feeder::lookup)
        .def("children", [](const Feeder& f, uint64_t id) { return to_numpy(f.children(id)); });
}

void bind_frontier(nb::module_& m) {
    nb::class_<Frontier>(m, "Frontier")
        .def(nb::init<>())
        .def("add", &add_batch, nb::arg("ids"), nb::arg("offsets"), nb::arg("deps"),
             nb::arg("drain"))
        .def("drain", &Frontier::drain)
        .def("waiting", &Frontier::waiting)
        .def("missing_count", &Frontier::missing_count)
        .def("missing", &missing, nb::arg("cap"), nb::arg("waiters"))
        .def("release_missing", &Frontier::release_missing)
        .def("cycle", [](const Frontier& f) { return to_numpy(f.cycle()); });
}

}  // namespace

void feeder(nb::module_& m) {
    static PyObject* feed_error =
        PyErr_NewException("chakrakit.core.FeedError", PyExc_RuntimeError, nullptr);
    m.attr("FeedError") = nb::handle(feed_error);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const FeedError& e) {
            // args = (message, whether nodes can never run): Python adds the file's name.
            bool deadlock = e.kind() == FeedError::kDeadlock;
            nb::object args = nb::make_tuple(to_str(e.what()), deadlock);
            PyErr_SetObject(feed_error, args.ptr());
        }
    });
    bind_node(m);
    bind_feeder(m);
    bind_frontier(m);
}

}  // namespace chakra::bind
