"""Groups numbered from 1, with one of all ranks."""

import numpy as np
import pyarrow as pa
import pytest

from chakrakit import Binding, CollectiveType, Groups, Run, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.passes.portable import NumberedGroups, Portable


def numbered(groups, ranks=2):
    t = TraceBuilder()
    t.comp("a")
    return NumberedGroups.of(
        TraceSet([t.build()], {r: Binding(0) for r in range(ranks)}, Groups(groups))
    )


def test_numbers_keep_theirs_and_names_get_what_is_free():
    found = numbered({"2": [0], "tp": [1]})
    assert (found.names["2"], found.names["tp"]) == ("2", "1")
    assert dict(found.groups) == {"2": (0,), "1": (1,), "3": (0, 1)}
    assert found.world == found.names[""] == found.names["0"] == "3"


def test_a_group_of_all_ranks_is_the_world():
    found = numbered({"7": [0, 1]})
    assert (found.world, dict(found.groups)) == ("7", {"7": (0, 1)})


def test_ranks_that_are_not_here_are_left_out_with_groups_of_them_alone():
    assert dict(numbered({"1": [0, 9], "2": [8, 9]}).groups) == {"1": (0,), "2": (0, 1)}


def test_collectives_without_a_group_are_of_all_ranks():
    found = numbered({"tp": [0]})
    given = pa.array(["tp", None, None])
    assert found.renamed(given, np.array([True, True, False])).to_pylist() == ["1", "2", None]
    assert found.renamed(None, np.array([True, False])).to_pylist() == ["2", None]


def test_a_binding_speaks_of_the_new_names():
    binding = numbered({"tp": [0]}).binding(Binding(3, {"role": "tp"}, {1: 2}, 5.0), 0)
    assert (binding.body, binding.groups, binding.scale) == (0, {"role": "1"}, 1.0)


def test_what_no_reader_of_plain_traces_could_run_is_refused():
    """A group that nothing defines, and a message with a rank that is not here."""
    undefined, absent = TraceBuilder(), TraceBuilder()
    undefined.collective("sum", CollectiveType.ALL_REDUCE, 8, pg_name="5")
    absent.send("away", 0, 1, 8)
    for builder, problem in ((undefined, "nothing says which ranks"), (absent, "was not recorded")):
        builder.comp("work", duration_ns=10)
        trace = builder.build()
        run = Run([trace.with_columns({"start_time_micros": range(len(trace))})], {0: Binding(0)})
        with pytest.raises(TraceError, match=problem):
            Portable().apply(run)
