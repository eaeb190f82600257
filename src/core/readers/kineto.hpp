// Reads Kineto's Chrome-trace JSON into columns with exact nanoseconds.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/readers/damaged_list.hpp"
#include "core/text/interner.hpp"

namespace chakra {

// One row per complete event ("ph": "X"), in file order. Text columns are numbers of strings in
// `texts`; a number that the file does not give is -1. The ends of forward-backward arrows have
// columns of their own (`flow_*`).
struct KinetoColumns : Damage {
    std::vector<int32_t> cat, name, in_dims, in_types, in_strides, in_values, grid, block;
    std::vector<int64_t> pid, tid, ts, dur, external, rf_id, correlation, stream, device, sequence,
        fwd_thread, bytes, python_id, python_parent, graph_node;
    std::vector<int32_t> extra_event, extra_key, extra_value;
    std::vector<int64_t> flow_id, flow_tid, flow_ts;
    std::vector<int8_t> flow_finish;
    std::map<int32_t, int64_t> left_out;  // events of other phases, by category
    Interner texts{""};

    int64_t base_ns = 0;
    int32_t distributed = 0, devices = 0, host_name = 0, trace_name = 0;
};

KinetoColumns read_kineto(std::string_view text);

}  // namespace chakra
