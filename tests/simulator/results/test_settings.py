"""The simulator's settings as words."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.simulator.engine import Fault
from chakrakit.simulator.results import read_placement, split_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("device:3@1e6=0.5", Fault("device", 3, 1e6, 0.5)),
        ("link:0-1@0=0", Fault("link", (0, 1), 0.0, 0.0)),
        ("link:leaf-2@5=0.1", Fault("link", ("leaf", 2), 5.0, 0.1)),
    ],
)
def test_a_fault(text, fault):
    assert split_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("disk:3@0=1", "write device:RANK@NS=FACTOR"),
        ("link:0@0=1", "a link has two ends"),
        ("device:1@e=1", "NS and FACTOR should be numbers"),
    ],
)
def test_what_is_no_fault_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        split_fault(text)


def test_a_placement_is_a_list_of_devices(tmp_path):
    path = tmp_path / "p.json"
    path.write_text("[2, 3, 0, 1]")
    assert read_placement(str(path)) == (2, 3, 0, 1)
    path.write_text('{"0": 2}')
    with pytest.raises(ConfigError, match="not a placement"):
        read_placement(str(path))


def test_a_device_may_be_called_by_its_name():
    fault = split_fault("device:gpu0@5=0.5")
    assert (fault.kind, fault.target, fault.at_ns, fault.factor) == ("device", "gpu0", 5, 0.5)
