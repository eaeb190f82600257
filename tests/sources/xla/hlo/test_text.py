"""HLO text, line by line."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo_text import read_text

HEAD = "HloModule m, is_scheduled=true, num_partitions=4, replica_count=2\n\n"


def entry(*lines):
    return read_text(HEAD + "ENTRY %main (a: f32[2,3]) -> f32[] {\n" + "\n".join(lines) + "\n}\n")


def test_shapes_operands_and_attributes():
    module = entry(
        "  %a = f32[2,3]{1,0:T(8,128)} parameter(0)",
        '  %d = bf16[2,5]{1,0} dot(%a, %a), lhs_contracting_dims={1}, metadata={op_name="f/dot"}',
        "  ROOT %t = (f32[2,3], (s32[], pred[4])) tuple(%a, %d)",
    )
    a, d, t = module.computations["main"].instructions
    assert (a.opcode, a.parameter, a.shape.dims) == ("parameter", 0, (2, 3))
    assert (d.operands, d.op_name, d.shape.bytes) == (("a", "a"), "f/dot", 2 * 5 * 2)
    assert t.shape.bytes == 24 + 4 + 4
    assert module.computations["main"].root == "t"
    assert (module.devices, module.is_scheduled) == (8, True)


def test_comments_and_dynamic_sizes_are_read_over():
    module = entry("  ROOT %a = f32[/*i0=*/<=7] parameter(0)")
    assert module.computations["main"].instructions[0].shape.dims == (7,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("module", "no line starts with HloModule"),
        (HEAD, "no ENTRY computation"),
        (HEAD + "ENTRY %main () -> f32[] {\n  %a = f32[2 parameter(0)\n}", "line 4: no shape in"),
        (HEAD + "ENTRY %main () -> f32[] {\n  %a = f32[] ???\n}", "line 4: a has no opcode"),
        (HEAD + "ENTRY %main () -> f32[] {\n  %a = f32[] parameter(x)\n}", "line 4"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(text, problem):
    with pytest.raises(FormatError, match=problem):
        read_text(text)
