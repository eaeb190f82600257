"""Process groups: from files, from PyTorch's own node, and what their names mean."""

import json

import pytest

from chakrakit import Groups, TraceBuilder
from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.communication import groups_in, positive_names, read_groups
from chakrakit.trace.communication.groups import parse_groups
from chakrakit.trace.model import NodeType


def test_a_name_means_its_group_or_the_world():
    groups = Groups({"1": [2, 0]})
    assert groups.ranks_of("1", (0, 1, 2)) == (2, 0)
    assert groups.ranks_of("", (0, 1, 2)) == (0, 1, 2)
    assert groups.ranks_of("0", (0, 1, 2)) == (0, 1, 2)
    assert groups.ranks_of("tp", (0, 1, 2)) is None


def test_a_group_called_zero_is_no_longer_the_world():
    assert Groups({"0": [1]}).ranks_of("0", (0, 1)) == (1,)


def test_of_two_that_differ_the_first_wins():
    assert dict(Groups({"1": [0]}).merged(Groups({"1": [9], "2": [1]}))) == {"1": (0,), "2": (1,)}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([[0, 1]], "not a file of groups like .* got `array`"),
        ({"1": 3}, "Expected `array`, got `int`"),
        ({"1": [0, "1"]}, "Expected `int`, got `str`"),
        ({"1": [True]}, "Expected `int`, got `bool`"),
        ({"1": [-1]}, "Expected `int` >= 0"),
        ({"1": [0, 0]}, "group '1' lists a rank twice"),
    ],
)
def test_a_wrong_file_of_groups_says_which_group(found, problem):
    with pytest.raises(FormatError, match=problem):
        parse_groups(found, "groups.json")


def test_a_file_that_is_no_json_is_refused_with_its_name(tmp_path):
    path = tmp_path / "groups.json"
    path.write_text("{")
    with pytest.raises(ChakraError, match=r"groups\.json.*not a file of groups like"):
        read_groups(path)


def init(values):
    t = TraceBuilder()
    t.node("## process_group:init ##", NodeType.METADATA_NODE, inputs_values=values)
    return groups_in(t.build())


def test_pytorchs_own_node_defines_groups_but_not_the_world():
    listed = [{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "0", "ranks": []}]
    assert dict(init(str([json.dumps(listed)]))) == {"1": (0, 1)}


@pytest.mark.parametrize("values", ["", "[", "['x']", "[3]", str([json.dumps([{"ranks": [0]}])])])
def test_a_node_of_that_name_that_says_something_else_defines_nothing(values):
    assert dict(init(values)) == {}


def test_names_become_positive_numbers_and_numbers_keep_theirs():
    assert positive_names(["tp", "2", "0", "dp"]) == {"tp": "1", "2": "2", "0": "3", "dp": "4"}
    assert positive_names(["01", "-1"]) == {"01": "1", "-1": "2"}
