"""Work of HLO instructions: floating-point operations and bytes, counted as XLA's cost analysis does."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from chakrakit.errors import FormatError
from chakrakit.operators import Work, convolution_flops, opcode_work, product_flops
from chakrakit.sources.xla.hlo import Computation, Instruction, Module

_LIBRARY = re.compile(r"gemm|matmul", re.I)
"""Libraries' matrix products, as `__cublas$gemm`."""
_CONTRACTED = re.compile(r"lhs_contracting_dimensions\W+\[([^\]]*)\]")


def flops(module: Module, instruction: Instruction, inside: Computation) -> tuple[int, int]:
    """(of dots and convolutions, of everything else) of one instruction with all that it calls."""
    if instruction.opcode == "fusion":
        return _of_called(module, instruction)
    shapes = {i.name: i.shape for i in inside.instructions}
    operands = [shapes[o] for o in instruction.operands if o in shapes]
    if instruction.opcode == "dot" and operands:
        summed = math.prod(
            operands[0].dims[d] for d in instruction.contracting if 0 <= d < len(operands[0].dims)
        )
        return product_flops(instruction.shape.elements, 1, summed), 0
    if instruction.opcode == "custom-call" and _LIBRARY.search(instruction.target) and operands:
        contracted = _CONTRACTED.search(instruction.backend)
        dims = [int(d) for d in re.findall(r"\d+", contracted[1])] if contracted else [-1]
        rank = len(operands[0].dims)
        summed = math.prod(operands[0].dims[d] for d in dims if -rank <= d < rank)
        return product_flops(instruction.shape.first.elements, 1, summed), 0
    if instruction.opcode == "convolution" and len(operands) > 1:
        kernel, features = operands[1].dims, instruction.kernel_features
        outputs = kernel[features] if 0 <= features < len(kernel) else 1
        return convolution_flops(instruction.shape.elements, kernel) // max(outputs, 1), 0
    if instruction.opcode == "reduce" and operands:
        return 0, max(operands[0].elements - instruction.shape.first.elements, 0)
    computes = opcode_work(instruction.opcode) is Work.VECTOR
    return 0, instruction.shape.elements if computes else 0


def _of_called(module: Module, instruction: Instruction) -> tuple[int, int]:
    found = [_of_computation(module, name) for name in instruction.called]
    return sum(f[0] for f in found), sum(f[1] for f in found)


@lru_cache(1 << 12)
def _of_computation(module: Module, name: str) -> tuple[int, int]:
    """Work of everything in a computation; many fusions call the same one."""
    computation = module.computations.get(name) or Computation(name)
    try:
        found = [flops(module, inner, computation) for inner in computation.instructions]
    except RecursionError:
        raise FormatError(f"{name}: fusions call themselves, or are nested too deep") from None
    return sum(f[0] for f in found), sum(f[1] for f in found)


def moved(instruction: Instruction, sizes: dict[str, int]) -> int:
    """Bytes read and written: operands and result, each once.

    A slice reads what it gives, and an update in place writes what it is given.
    """
    if instruction.opcode in ("dynamic-slice", "slice", "gather"):
        return 2 * instruction.shape.bytes
    if instruction.opcode == "dynamic-update-slice" and len(instruction.operands) > 1:
        return 2 * sizes.get(instruction.operands[1], 0)
    return instruction.shape.bytes + sum(sizes.get(o, 0) for o in instruction.operands)
