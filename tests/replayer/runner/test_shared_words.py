"""The runner imports nothing of chakrakit, so what both must spell alike is compared here."""

import pytest


def test_the_mark_of_a_group_is_the_recorders():
    pytest.importorskip("torch")
    from chakrakit.replayer.runner import program
    from chakrakit.sources.pytorch.recorder import GROUP_MARK

    assert program.GROUP_MARK == GROUP_MARK


def test_forms_of_edges_are_the_traces():
    from chakrakit.replayer.runner import emulate
    from chakrakit.trace.model import EdgeForm

    forms = (emulate.FINISH_START, emulate.START_START, emulate.FINISH_FINISH)
    assert forms == (EdgeForm.FINISH_START, EdgeForm.START_START, EdgeForm.FINISH_FINISH)


def test_memory_formats_are_numbered_as_the_plan_numbers_them():
    from chakrakit.replayer import tensors as values
    from chakrakit.replayer.runner import calls

    assert calls._FORMATS == values._FORMATS
