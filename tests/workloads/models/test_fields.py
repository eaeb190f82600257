"""A workload from single fields by name."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.models import field_types, workload_of

STEP = {"seq": 128, "global_batch": 8}


def test_each_field_goes_to_the_part_that_has_it():
    found = workload_of(None, "gpt3-125m", STEP | {"tp": 2, "layers": 3, "mean": None})
    assert (found.plan.tp, found.step.seq, found.model.layers) == (2, 128, 3)


def test_fields_win_over_the_file(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("model: gpt3-125m\nplan: {tp: 4, dp: 2}\nstep: {seq: 64, global_batch: 8}\n")
    found = workload_of(str(path), None, {"tp": 2})
    assert (found.plan.tp, found.plan.dp, found.step.seq) == (2, 2, 64)


@pytest.mark.parametrize(
    ("model", "fields", "problem"),
    [
        (None, {}, "no model; give --model M"),
        ("gpt3-125m", {"global_bach": 8}, "no field 'global_bach'; did you mean 'global_batch'"),
        ("gpt3-125m", {"qqqqqq": 8}, "`chakra generate --help` lists them"),
    ],
)
def test_what_makes_no_workload_is_refused(model, fields, problem):
    with pytest.raises(ConfigError, match=problem):
        workload_of(None, model, fields)


def test_of_equal_names_the_plans_and_the_steps_win():
    known = field_types()
    assert known["tp"][0] == "plan"
    assert known["dtype"][0] == "step"
    assert "tasks" not in known
