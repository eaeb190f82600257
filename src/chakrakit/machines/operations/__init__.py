"""What a trace's device rows compute: operators as calls, and the class and size of their work."""

from __future__ import annotations

from chakrakit.machines.operations.calls import Call, Operand, read_call, read_operands
from chakrakit.machines.operations.contractions import gemm_operation
from chakrakit.machines.operations.launchers import Launchers, operations_of
from chakrakit.machines.operations.operation import Operation, Touch, Work
from chakrakit.machines.operations.signatures import operation_of
from chakrakit.machines.operations.streaming import streaming

__all__ = [
    "Call",
    "Launchers",
    "Operand",
    "Operation",
    "Touch",
    "Work",
    "gemm_operation",
    "operation_of",
    "operations_of",
    "read_call",
    "read_operands",
    "streaming",
]
