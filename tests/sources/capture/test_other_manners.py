"""Programs written in other people's manner: recurrent layers, copies, selections, distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chakrakit import ChakraError

Captured = Callable[..., Any]
PROGRAMS = Path(__file__).parent / "programs"
MULTIPLIED = 2
"""A multiply-add is two FLOPs."""


def names_of(traces: Any) -> Counter[str]:
    return Counter(str(n) for n in traces[0].column("name", ""))


def flops_of(traces: Any, name: str) -> int:
    rows = zip(traces[0].column("name", ""), traces[0].column("num_ops", 0), strict=True)
    return sum(int(ops) for found, ops in rows if found == name)


@pytest.mark.slow
def test_recurrent_layers_are_the_devices_with_flops_of_all_their_weights(
    captured: Captured,
) -> None:
    _, traces = captured("other_manners", "lstm", ranks=1, device="h200")
    names = names_of(traces)
    assert names["aten::_cudnn_rnn"] == names["aten::_cudnn_rnn_backward"] == 1
    assert not any("mkldnn" in name for name in names)
    weights = 4 * 32 * (16 + 32) + 4 * 32 * (32 + 32)
    forward = MULTIPLIED * 4 * 6 * weights
    assert flops_of(traces, "aten::_cudnn_rnn") == forward
    assert flops_of(traces, "aten::_cudnn_rnn_backward") == 2 * forward
    assert names["aten::add_"] == 1  # the head's bias, since rows of the layer's result lie apart


@pytest.mark.slow
def test_packed_sequences_are_as_long_as_their_lengths(captured: Captured) -> None:
    _, traces = captured("other_manners", "packed", ranks=1, device="h200")
    assert names_of(traces)["aten::_pack_padded_sequence"] == 1
    weights = 2 * 3 * 32 * (16 + 32)
    assert flops_of(traces, "aten::_cudnn_rnn") == MULTIPLIED * (6 + 3 + 5 + 3) * weights


@pytest.mark.slow
def test_cells_have_one_kernel_for_their_gates(captured: Captured) -> None:
    _, traces = captured("other_manners", "cells", ranks=1, device="h200")
    names = names_of(traces)
    assert names["aten::_thnn_fused_lstm_cell"] == names["aten::_thnn_fused_gru_cell"] == 6
    assert names["aten::_thnn_fused_lstm_cell_backward_impl"] == 6
    assert names["aten::_thnn_fused_gru_cell_backward"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["copied", "selected", "drawn"])
def test_it_is_captured(captured: Captured, manner: str) -> None:
    report, _ = captured("other_manners", manner, ranks=1, device="h200")
    assert report.kinds[0].peak_bytes > 0


@pytest.mark.slow
def test_lbfgs_goes_on_for_all_its_iterations(captured: Captured) -> None:
    report, traces = captured("other_manners", "minimised", ranks=1, device="h200")
    assert names_of(traces)["aten::addmm"] == 5  # a closure each
    assert any("LBFGS: no step converges" in text for text in report.warnings)


@pytest.mark.slow
def test_numbers_that_where_fills_in_are_filled_on_the_device(captured: Captured) -> None:
    _, traces = captured("other_manners", "masked", ranks=1, device="h200")
    rows = zip(traces[0].column("name", ""), traces[0].column("is_cpu_op", False), strict=True)
    assert [host for name, host in rows if name == "aten::scalar_tensor"] == [False, False]


def test_what_one_rank_saved_others_load(captured: Captured) -> None:
    report, _ = captured("other_manners", "saved", ranks=2, device="h200")
    assert sum(kind.ranks for kind in report.kinds) == 2


def test_one_process_with_one_gpu_and_a_printed_count(captured: Captured) -> None:
    _, traces = captured("other_manners", "counted", ranks=1, device="h200")
    assert names_of(traces)["aten::addmm"] == 1


def test_one_process_on_several_gpus_is_refused_with_its_cure(captured: Captured) -> None:
    with pytest.raises(ChakraError, match=r"one process on 2 GPUs.*DistributedDataParallel"):
        captured("other_manners", "counted", ranks=2, device="h200")


def test_functions_inside_kernels_are_refused_by_name(captured: Captured) -> None:
    with pytest.raises(ChakraError, match=r"flex_attention runs functions of the script inside"):
        captured("other_manners", "flexed", ranks=1, device="h200")


def shapes_of(traces: Any, name: str, column: str) -> list[str]:
    rows = zip(traces[0].column("name", ""), traces[0].column(column, ""), strict=True)
    return [str(shapes) for found, shapes in rows if found == name]


def test_a_ctc_loss_keeps_states_for_the_longest_target(captured: Captured) -> None:
    _, traces = captured("other_manners", "transcribed", ranks=1, device="h200")
    assert shapes_of(traces, "aten::_ctc_loss", "outputs_shapes") == ["[[2],[2,20,11]]"]
    assert shapes_of(traces, "aten::_ctc_loss_backward", "outputs_shapes") == ["[[20,2,10]]"]


def test_how_many_rows_are_selected_can_be_declared(captured: Captured) -> None:
    with pytest.raises(
        ChakraError, match=r"declare how many are selected with --value other_man"
    ) as e:
        captured("other_manners", "found", ranks=1, device="h200")
    line = str(e.value).partition("--value ")[2].partition("=")[0]
    _, traces = captured("other_manners", "found", ranks=1, device="h200", values={line: 5})
    assert shapes_of(traces, "aten::index", "outputs_shapes") == ["[[5,4]]"]


def test_counts_that_ranks_send_each_other_are_known(captured: Captured) -> None:
    _, traces = captured("other_manners", "exchanged", ranks=4, device="h200")
    assert "[12,4]" in shapes_of(traces, "aten::addmm", "inputs_shapes")[0]


def test_a_size_that_the_device_computes_is_refused_with_its_cure(captured: Captured) -> None:
    with pytest.raises(ChakraError, match=r"needs its value.*declare it with --value other_man"):
        captured("other_manners", "sized", ranks=1, device="h200")


def test_a_step_without_any_operator_is_refused(captured: Captured) -> None:
    with pytest.raises(ChakraError, match="nothing was computed between the times that finished"):
        captured("other_manners", "nothing", ranks=1, step_ends="finished")


def test_ranks_that_pad_to_different_sizes_are_named_with_their_line(captured: Captured) -> None:
    """Rows of 4 numbers of 4 bytes: rank 1 pads to its own 3, rank 0 to its own 2."""
    report, _ = captured("other_manners", "padded", ranks=2, device="h200")
    (said,) = [text for text in report.warnings if "into a collective" in text]
    assert "rank 1 puts 48 bytes into a collective and rank 0 32" in said
    line = int(said.removeprefix("other_manners.py:").partition(":")[0])
    source = (PROGRAMS / "other_manners.py").read_text().splitlines()
    assert "dist.all_gather([torch.empty_like(whole)" in source[line - 1]
    assert "pad to a constant" in said
