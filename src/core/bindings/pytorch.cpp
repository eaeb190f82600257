// PyTorch's two JSON files, handed to Python as dictionaries of arrays; and their nesting.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/bindings/bind.hpp"
#include "core/readers/kineto.hpp"
#include "core/readers/observer.hpp"
#include "core/readers/pickle.hpp"
#include "core/readers/records.hpp"
#include "core/timing/nest.hpp"

namespace chakra::bind {

namespace {

nb::tuple texts(Texts&& t) {
    return nb::make_tuple(to_numpy(std::move(t.bytes)), to_numpy(std::move(t.offsets)));
}

nb::tuple texts(Interner& t) {
    return nb::make_tuple(give(t.take_text()), give(t.take_offsets()));
}

std::string_view view(const nb::bytes& data) {
    return {data.c_str(), data.size()};
}

#define PUT(columns, name) out[#name] = to_numpy(std::move(columns.name))

void put_observer_nodes(nb::dict& out, ObserverColumns& c) {
    PUT(c, id);
    PUT(c, parent);
    PUT(c, rf_id);
    PUT(c, fw_parent);
    PUT(c, seq_id);
    PUT(c, scope);
    PUT(c, tid);
    PUT(c, fw_tid);
    PUT(c, name);
    PUT(c, op_schema);
    PUT(c, kernel_backend);
    PUT(c, kernel_file);
    PUT(c, tensor_range);
    PUT(c, in_shapes);
    PUT(c, in_types);
    PUT(c, in_strides);
    PUT(c, out_shapes);
    PUT(c, out_types);
    PUT(c, out_strides);
    out["in_values"] = texts(std::move(c.in_values));
    out["out_values"] = texts(std::move(c.out_values));
}

void put_observer_sides(nb::dict& out, ObserverColumns& c) {
    PUT(c, tensor_node);
    PUT(c, tensor_is_output);
    PUT(c, tensor_id);
    PUT(c, tensor_storage);
    PUT(c, tensor_offset);
    PUT(c, tensor_elements);
    PUT(c, tensor_itemsize);
    PUT(c, tensor_device);
    PUT(c, extra_node);
    PUT(c, extra_key);
    PUT(c, extra_value);
    out["texts"] = texts(c.texts);
    out["schema"] = c.schema;
    out["pid"] = c.pid;
    out["start_ts"] = c.start_ts;
    out["finish_ts"] = c.finish_ts;
    out["truncated"] = c.truncated;
    out["repaired"] = c.repaired;
    out["dropped"] = c.dropped;
}

nb::dict observer(const nb::bytes& data) {
    ObserverColumns c;
    {
        nb::gil_scoped_release release;
        c = read_observer(view(data));
    }
    nb::dict out;
    put_observer_nodes(out, c);
    put_observer_sides(out, c);
    return out;
}

void put_kineto_events(nb::dict& out, KinetoColumns& c) {
    PUT(c, cat);
    PUT(c, name);
    PUT(c, in_dims);
    PUT(c, in_types);
    PUT(c, in_strides);
    PUT(c, in_values);
    PUT(c, grid);
    PUT(c, block);
    PUT(c, pid);
    PUT(c, tid);
    PUT(c, ts);
    PUT(c, dur);
    PUT(c, external);
    PUT(c, rf_id);
    PUT(c, correlation);
    PUT(c, stream);
    PUT(c, device);
    PUT(c, sequence);
    PUT(c, fwd_thread);
    PUT(c, bytes);
    PUT(c, python_id);
    PUT(c, python_parent);
    PUT(c, graph_node);
    PUT(c, extra_event);
    PUT(c, extra_key);
    PUT(c, extra_value);
    PUT(c, flow_id);
    PUT(c, flow_tid);
    PUT(c, flow_ts);
    PUT(c, flow_finish);
}

nb::dict kineto(const nb::bytes& data) {
    KinetoColumns c;
    {
        nb::gil_scoped_release release;
        c = read_kineto(view(data));
    }
    nb::dict out;
    put_kineto_events(out, c);
    nb::dict left_out;
    for (auto [key, count] : c.left_out) left_out[nb::int_(key)] = count;
    out["left_out"] = left_out;
    out["texts"] = texts(c.texts);
    out["base_ns"] = c.base_ns;
    out["distributed"] = c.distributed;
    out["devices"] = c.devices;
    out["host_name"] = c.host_name;
    out["trace_name"] = c.trace_name;
    out["truncated"] = c.truncated;
    out["repaired"] = c.repaired;
    out["dropped"] = c.dropped;
    return out;
}

#undef PUT

nb::tuple nesting(In<int32_t> thread, In<int64_t> start, In<int64_t> end, int64_t slack) {
    Nesting out = nest({thread.data(), thread.size()}, {start.data(), start.size()},
                       {end.data(), end.size()}, slack);
    return nb::make_tuple(to_numpy(std::move(out.parent)), to_numpy(std::move(out.astray)));
}

Out<int64_t> ends(In<int32_t> rows, In<int32_t> outer, In<int64_t> recorded_end, In<int64_t> start,
                In<int64_t> end, In<int32_t> follows, int64_t per_ns) {
    Calls calls{{rows.data(), rows.size()},
                {outer.data(), outer.size()},
                {recorded_end.data(), recorded_end.size()},
                {start.data(), start.size()},
                {follows.data(), follows.size()},
                per_ns};
    return to_numpy(callers_ends(calls, {end.data(), end.size()}));
}

nb::bytes plain_pickle(const nb::bytes& data, const std::vector<std::string>& skip) {
    std::string text;
    {
        nb::gil_scoped_release release;
        text = pickle_to_json(view(data), skip);
    }
    return nb::bytes(text.data(), text.size());
}

template <class T>
nb::list columns(std::vector<std::vector<T>>&& from) {
    nb::list out;
    for (auto& c : from) out.append(to_numpy(std::move(c)));
    return out;
}

nb::tuple records(const nb::bytes& data, const std::string& key, std::vector<std::string> numbers,
                  std::vector<std::string> reals, std::vector<std::string> names) {
    Records r;
    {
        nb::gil_scoped_release release;
        r = read_records(view(data), key, {std::move(numbers), std::move(reals), std::move(names)});
    }
    nb::dict rest;
    for (auto& [name, raw] : r.rest) rest[name.c_str()] = nb::bytes(raw.data(), raw.size());
    return nb::make_tuple(columns(std::move(r.numbers)), columns(std::move(r.reals)),
                          columns(std::move(r.texts)), texts(r.table), rest);
}

}  // namespace

void pytorch(nb::module_& m) {
    m.def("read_observer", &observer, nb::arg("data"));
    m.def("read_kineto", &kineto, nb::arg("data"));
    m.def("read_records", &records, nb::arg("data"), nb::arg("key"), nb::arg("numbers"),
          nb::arg("reals"), nb::arg("texts"));
    m.def("pickle_to_json", &plain_pickle, nb::arg("data"), nb::arg("skip"));
    m.def("nest", &nesting, nb::arg("thread"), nb::arg("start"), nb::arg("end"), nb::arg("slack"));
    m.def("callers_ends", &ends, nb::arg("rows"), nb::arg("outer"), nb::arg("recorded_end"),
          nb::arg("start"), nb::arg("end"), nb::arg("follows"), nb::arg("per_ns"));
}

}  // namespace chakra::bind
