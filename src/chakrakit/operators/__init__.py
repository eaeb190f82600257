"""What every room must know of operators and their tensors, once.

One reader of recorded arguments (`calls`), one table of what operators compute, touch and alias (`table`),
one of names of communication (`communication`), one of XLA's opcodes (`hlo`), and the closed forms.
"""

from __future__ import annotations

from chakrakit.operators.calls import (
    LARGEST,
    Call,
    Operand,
    RecordedTensor,
    Texts,
    is_in_place,
    is_recorded_tensor,
    json_list,
    json_value,
    mentioned_tensors,
    read_call,
    recorded_tensor,
    short_name,
)
from chakrakit.operators.communication import (
    PARAMETERS,
    SPACES,
    collective_of,
    is_communication,
    is_device_record,
    is_dispatched,
    is_kernel,
    is_record,
)
from chakrakit.operators.element_types import (
    TYPES,
    ElementType,
    WorkingType,
    dtype_name,
    element_bytes,
    element_type,
    figure_for,
    find_type,
    rate_name,
    type_of_code,
    type_of_cpp,
)
from chakrakit.operators.operation import Operation
from chakrakit.operators.products import gemm_operation
from chakrakit.operators.streaming import streamed
from chakrakit.operators.table import Cost, Operator, Work, cost_of, operation_of, operator_of

__all__ = [
    "LARGEST",
    "PARAMETERS",
    "SPACES",
    "TYPES",
    "Call",
    "Cost",
    "ElementType",
    "Operand",
    "Operation",
    "Operator",
    "RecordedTensor",
    "Texts",
    "Work",
    "WorkingType",
    "collective_of",
    "cost_of",
    "dtype_name",
    "element_bytes",
    "element_type",
    "figure_for",
    "find_type",
    "gemm_operation",
    "is_communication",
    "is_device_record",
    "is_dispatched",
    "is_in_place",
    "is_kernel",
    "is_record",
    "is_recorded_tensor",
    "json_list",
    "json_value",
    "mentioned_tensors",
    "operation_of",
    "operator_of",
    "rate_name",
    "read_call",
    "recorded_tensor",
    "short_name",
    "streamed",
    "type_of_code",
    "type_of_cpp",
]
