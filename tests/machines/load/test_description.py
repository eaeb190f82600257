"""Descriptions of machines: what they mean, what differs for some ranks, and what is refused."""

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.machines.description import parse_ranks
from support.networks import LINK, network


def test_changes_make_machines_heterogeneous():
    machine = network(
        {"topology": "switch", "size": 4},
        device={"name": "a"},
        changes=[{"ranks": "2-3", "device": {"name": "b"}}, {"ranks": [0], "bandwidth": "1 GB/s"}],
    )
    assert [machine.device(r).name for r in range(4)] == ["a", "a", "b", "b"]
    widths = machine.routes(np.array([0, 1]), np.array([1, 2])).bandwidth(machine.links)
    assert widths.tolist() == [1e9, 10e9]


def test_a_change_may_name_one_rank_as_a_number():
    machine = network(
        {"topology": "switch", "size": 4}, changes=[{"ranks": 3, "device": {"name": "b"}}]
    )
    assert [machine.device(r).name == "b" for r in range(4)] == [False, False, False, True]


WRONG = {
    "network[0].bandwidth": {"network": [{"topology": "ring", "size": 4, "bandwidth": 0}]},
    "is not a bandwidth": {"network": [{"topology": "ring", "size": 4, "bandwidth": "10 parsec"}]},
    "size": {"network": [{"topology": "ring", **LINK}]},
    "Invalid enum value 'moebius'": {"network": [{"topology": "moebius", "size": 4, **LINK}]},
    "unknown field `bandwith`": {
        "network": [{"topology": "ring", "size": 4, "bandwith": 1, **LINK}]
    },
    "either `network`": {"name": "x"},
    "arity": {"network": [{"topology": "fat-tree", "size": 6, "arity": [4, 2], **LINK}]},
    "oversubscription": {
        "network": [{"topology": "switch", "size": 6, "oversubscription": 0, **LINK}]
    },
    "to itself": {"graph": {"devices": ["a", "b"], "links": [{"ends": ["a", "a"], **LINK}]}},
    "no rank 9": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "changes": [{"ranks": [9]}],
    },
    "too large": {"network": [{"topology": "full", "size": 100000, **LINK}]},
    "memory": {"network": [{"topology": "ring", "size": 4, **LINK}], "device": {"memory": -1}},
    "(0, 1]": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"compute_efficiency": 2},
    },
    "no 'attention_'; did you mean": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"peak": {"bf16": 1e12}, "achieved": {"attention_": 0.5}},
    },
    "achieved.memory: 0": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"achieved": {"memory": 0}},
    },
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_descriptions_say_where(said):
    with pytest.raises(
        ConfigError, match="(?s)" + said.replace("[", r"\[").replace("(", r"\(").replace("]", r"\]")
    ):
        parse_machine(WRONG[said], "m.yaml")


@pytest.mark.parametrize(
    ("text", "ranks"), [("0-2,5", [0, 1, 2, 5]), ("3", [3]), ([4, 1], [4, 1]), ("1,0-1", [0, 1])]
)
def test_ranks_are_numbers_or_spans(text, ranks):
    assert parse_ranks(text, 6, "m.ranks") == ranks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-9", "no rank 9; there are 6"),
        ("all", "'all' is not a list of ranks"),
        ("4-1", "'4-1' is not a list of ranks; write it as in 0-7,16"),
    ],
)
def test_ranks_that_are_not_there_are_refused(text, said):
    with pytest.raises(ConfigError, match=f"m.ranks: {said}"):
        parse_ranks(text, 6, "m.ranks")


def test_the_outermost_dimension_takes_the_number_of_nodes():
    tree = {"network": [{"topology": "fat-tree", "arity": [4, 2], **LINK}]}
    assert parse_machine(tree, "m", 12).dimensions[0].fabric.arity == (4, 3)
    assert parse_machine(tree, "m", 3).dimensions[0].fabric.arity == (3,)
    with pytest.raises(ConfigError, match="10 nodes do not fill leaves of 4; use a multiple"):
        parse_machine(tree, "m", 10)
    torus = {"network": [{"topology": "torus", "dims": [2, 2, 2], **LINK}]}
    assert parse_machine(torus, "m", 24).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"schedule": [{"at": "1 s", "faktor": 1}]},
            "unknown field `faktor`.*did you mean 'factor'",
        ),
        ({"messages": {"latency": "1 us"}}, "unknown field `latency`.*there are gap, overhead"),
    ],
)
def test_fields_that_a_machine_does_not_have_are_refused_with_those_it_has(part, said):
    level = {"topology": "switch", "size": 2, "bandwidth": "1 GB/s", **part}
    with pytest.raises(ConfigError, match=said):
        parse_machine({"network": [level]}, "m")


@pytest.mark.parametrize("level", [{"bandwidth": 1e308}, {"bandwidth": 5e-324}])
def test_numbers_that_no_machine_has_are_refused_where_they_enter(level):
    """Shared out over the levels of a tree they would overflow, or vanish."""
    tree = {"topology": "fat-tree", "arity": [2, 2], **level}
    with pytest.raises(ConfigError, match=r"bandwidth: .* is not a bandwidth that a machine could"):
        parse_machine({"network": [tree]}, "m")


@pytest.mark.parametrize("factor", [0, -1, 1e-308, float("inf"), float("nan")])
def test_an_oversubscription_that_no_tree_has_is_refused(factor):
    tree = {"topology": "fat-tree", "arity": [2, 2], **LINK, "oversubscription": factor}
    with pytest.raises(ConfigError, match=r"oversubscription: .* is not in 0.001 … 1,000"):
        parse_machine({"network": [tree]}, "m")


def test_a_message_of_less_than_a_byte_is_refused():
    level = {"topology": "switch", "size": 2, **LINK, "messages": {"gap": "1 us", "size": 1e-9}}
    with pytest.raises(ConfigError, match="size: 1e-09 is less than a byte; give 0 for no limit"):
        parse_machine({"network": [level]}, "m")


def test_words_that_a_machine_does_not_know_are_refused_with_those_it_knows():
    level = {"topology": "switch", "size": 2, "bandwidth": "1 GB/s"}
    with pytest.raises(ConfigError, match=r"'mpi'.*there are gloo, nccl"):
        parse_machine({"network": [level], "software": {"groups": "mpi"}}, "m")
