"""Lists of nodes as columns: texts by number, phases, and parts with their dependencies."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.layers import INPUT, BlockNode
from chakrakit.workloads.program import TextTables, TiledColumns, table_of
from chakrakit.workloads.program.tables import PHASES, Codes, picked


def nodes() -> list[BlockNode]:
    return [
        BlockNode("a", "matmul", flops=7, deps=[INPUT], role="tp", dtype="bf16"),
        BlockNode("b", "vector", deps=[0], weight=True, alloc=5),
        BlockNode("a", "matmul", deps=[0, 1], saved=[4], recompute=True),
    ]


def test_texts_are_numbered_in_the_order_of_their_first_use() -> None:
    codes = Codes(["x", "y"])
    assert [codes.number(t) for t in ("y", "z", "x")] == [1, 2, 0]
    assert codes.texts == ["x", "y", "z"]


def test_nodes_become_columns_and_pairs() -> None:
    book = TextTables()
    table = table_of(nodes(), book, "backward")
    assert [book.names.texts[n] for n in table.columns["name"]] == ["a", "b", "a"]
    assert [PHASES[p] for p in table.columns["phase"]] == ["backward", "weight", "recompute"]
    assert table.columns["flops"].tolist() == [7, 0, 0]
    assert table.columns["comm"].tolist() == [-1, -1, -1]
    assert table.deps.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert (table.inputs.tolist(), table.saved.tolist()) == ([0], [[4, 2]])


def test_weights_are_a_phase_of_backward_alone() -> None:
    forward = table_of(nodes(), TextTables(), "forward")
    assert [PHASES[p] for p in forward.columns["phase"]] == ["forward", "forward", "recompute"]


def test_a_part_keeps_what_is_within_it() -> None:
    table = table_of(nodes(), TextTables(), "backward")
    part, place = picked(table, np.array([True, False, True]))
    assert place.tolist() == [0, -1, 1]
    assert part.deps.tolist() == [[0, 1]]
    assert (part.inputs.tolist(), part.saved.tolist()) == ([0], [[4, 1]])
    assert len(table_of([], TextTables(), "forward")) == 0


def test_rows_of_a_table_are_repeated_and_get_more_columns() -> None:
    table = {"op": np.array([1, 2]), "flops": np.array([10, 20])}
    columns = TiledColumns(table, np.array([0, 1, 0]), {"task": np.array([0, 1, 2])})
    assert {name: column.tolist() for name, column in columns.items()} == {
        "op": [1, 2, 1],
        "flops": [10, 20, 10],
        "task": [0, 1, 2],
    }
    wider = columns.with_columns(stream=np.array([4, 4, 4]))
    assert wider["stream"].tolist() == [4, 4, 4]
    assert "stream" not in columns


def test_a_node_with_numbers_beyond_64_bits_is_named() -> None:
    with pytest.raises(ConfigError, match="wide has numbers beyond 64 bits; check the sizes"):
        table_of(
            [BlockNode("a", "matmul"), BlockNode("wide", "matmul", flops=2**63)],
            TextTables(),
            "forward",
        )
