// Reads PyTorch's execution-trace JSON into columns. Schemas are told apart by the keys present.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/readers/damaged_list.hpp"
#include "core/text/interner.hpp"
#include "core/text/texts.hpp"

namespace chakra {

// One row per node, in file order. Columns of int32 are numbers of strings in `texts`; in_values
// and out_values keep each node's own JSON text. Tensors have columns of their own (`tensor_*`):
// one row per tensor found in inputs or outputs.
struct ObserverColumns : Damage {
    std::vector<int64_t> id, parent, rf_id, fw_parent, seq_id, scope, tid, fw_tid;
    std::vector<int32_t> name, op_schema, kernel_backend, kernel_file, tensor_range;
    std::vector<int32_t> in_shapes, in_types, in_strides, out_shapes, out_types, out_strides;
    Texts in_values, out_values;
    Interner texts{""};

    std::vector<int32_t> tensor_node;
    std::vector<int8_t> tensor_is_output;
    std::vector<int64_t> tensor_id, tensor_storage, tensor_offset, tensor_elements, tensor_itemsize;
    std::vector<int32_t> tensor_device;

    std::vector<int32_t> extra_node, extra_key, extra_value;  // attributes beyond the usual ones

    int32_t schema = 0;
    int64_t pid = -1;
    int64_t start_ts = -1, finish_ts = -1;
};

ObserverColumns read_observer(std::string_view text);

}  // namespace chakra
