"""What a group is for, by its name or by what it does."""

import pytest

from chakrakit import CollectiveType as C
from chakrakit import TraceBuilder
from chakrakit.passes.scale.axes import Role, Use, has_rule, role_of, uses_in

GRADIENTS = Use(frozenset({C.ALL_REDUCE}), reduces=True, small=False)
ACTIVATIONS = Use(frozenset({C.ALL_REDUCE}), sums_forward=True, reduces=True, small=False)
SHARDED = Use(frozenset({C.ALL_GATHER, C.REDUCE_SCATTER}), small=False)


@pytest.mark.parametrize(
    ("names", "use", "given", "role"),
    [
        ({"dp"}, GRADIENTS, False, Role.DATA),
        ({"tp"}, GRADIENTS, False, Role.MODEL),
        ({"7"}, GRADIENTS, False, Role.DATA),
        ({"7"}, ACTIVATIONS, False, Role.UNCLEAR),
        ({"7"}, ACTIVATIONS, True, Role.DATA),
        ({"7"}, SHARDED, False, Role.SHARDED),
        ({"7"}, Use(frozenset({C.ALL_REDUCE})), False, Role.SMALL),
        ({"7"}, Use(frozenset({C.ALL_TO_ALL}), small=False), False, Role.UNCLEAR),
        ({"ep"}, Use(frozenset({C.ALL_TO_ALL}), small=False), False, Role.MODEL),
    ],
)
def test_a_role(names, use, given, role):
    assert role_of(names, use, given) == role


def test_an_all_to_all_has_no_rule():
    assert has_rule(GRADIENTS)
    assert not has_rule(Use(frozenset({C.ALL_TO_ALL})))


def test_what_a_body_does_in_its_groups():
    t = TraceBuilder()
    t.collective("sum", C.ALL_REDUCE, 1000, pg_name="a", phase="forward")
    t.collective("loss", C.ALL_REDUCE, 8, pg_name="b", phase="forward")
    t.collective("grads", C.REDUCE_SCATTER, 1000, pg_name="c", phase="backward")
    found = uses_in(t.build())
    assert (found["a"].sums_forward, found["a"].small) == (True, False)
    assert (found["b"].sums_forward, found["b"].small) == (False, True)
    assert (found["c"].sums_forward, found["c"].reduces) == (False, False)
    assert str(found["a"] | found["c"]) == "ALL_REDUCE, REDUCE_SCATTER"
