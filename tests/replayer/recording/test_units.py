"""Which rows of a recording are replayed: the outermost operators that do the work themselves."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.units import Do, find_units
from support.recorded import ADD, ALL_REDUCE, MM, Sheet, plain, several, tensor
from support.replayed import ONE

LINEAR = "aten::linear(Tensor input, Tensor weight) -> Tensor"
PAIR = [tensor(1, 2, 3), tensor(2, 3, 4)]


@pytest.fixture
def sheet():
    return Sheet()


@pytest.fixture
def units(sheet, tmp_path):
    """(name, what is done with it, names inside) of each unit."""

    def find():
        seen = RecordedRows(0, sheet.traces(tmp_path).trace(0))
        return [
            (seen.names[u.row], u.do, [seen.names[r] for r in u.inside]) for u in find_units(seen)
        ]

    return find


def test_a_wrapper_is_opened_and_what_runs_inside_a_chosen_row_is_its_own(sheet, units):
    step = sheet.op("ProfilerStep#1", "", [])
    linear = sheet.op("aten::linear", LINEAR, PAIR, [tensor(3, 2, 4)], parent=step)
    product = sheet.op("aten::mm", MM, PAIR, [tensor(3, 2, 4)], parent=linear)
    sheet.op("aten::add", ADD, [PAIR[0], PAIR[0], ONE], [tensor(9, 2, 3)], parent=product)
    assert units() == [("aten::mm", Do.CALL, ["aten::add"])]


def test_an_operator_that_could_be_opened_but_called_nothing_is_called(sheet, units):
    sheet.op("aten::linear", LINEAR, PAIR, [tensor(3, 2, 4)])
    assert units() == [("aten::linear", Do.CALL, [])]


def test_communication_is_its_operator_and_records_of_it_are_not(sheet, units):
    sheet.groups(("0", [0]))
    given = [several(tensor(1, 4)), *[plain("<Object>", "Object")] * 2, plain("<None>", "None")]
    call = sheet.op("c10d::allreduce_", ALL_REDUCE, [*given, plain(True, "Bool"), plain(-1, "Int")])
    sheet.op("record_param_comms", "", [], parent=call)
    sheet.op("gloo:all_reduce", "", [])
    assert [u[:2] for u in units()] == [("c10d::allreduce_", Do.COLLECTIVE)]


def test_an_operator_that_nobody_knows_is_stood_in_for_unless_it_calls_others(sheet, units):
    schema = "mine::twice(Tensor x) -> Tensor"
    sheet.op("mine::twice", schema, [tensor(1, 4)], [tensor(2, 4)])
    outer = sheet.op("mine::twice", schema, [tensor(1, 4)], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(3, 4)], parent=outer)
    assert [u[:2] for u in units()] == [("mine::twice", Do.STAND_IN), ("aten::add", Do.CALL)]


def test_an_operator_passed_on_to_itself_is_opened(sheet, units):
    """As for a tensor of another kind: the call on the local part is the one that works."""
    outer = sheet.op("aten::mm", MM, PAIR, [tensor(3, 2, 4)])
    sheet.op("aten::mm", MM, PAIR, [tensor(3, 2, 4)], parent=outer)
    assert units() == [("aten::mm", Do.CALL, [])]


def test_waiting_for_a_device_is_kept_and_saying_something_of_a_tensor_is_no_work(sheet, units):
    sheet.op("cudaDeviceSynchronize", "", [])
    sheet.op(
        "aten::record_stream", "aten::record_stream(Tensor self, Stream s) -> ()", [tensor(1, 4)]
    )
    assert [u[:2] for u in units()] == [("cudaDeviceSynchronize", Do.SYNCHRONIZE)]


def test_an_operator_that_opens_a_file_ends_it_all(sheet, units):
    sheet.op("aten::from_file", "aten::from_file(str filename) -> Tensor", [plain("x", "String")])
    with pytest.raises(TraceError, match="opens a file; such a trace is not replayed"):
        units()
