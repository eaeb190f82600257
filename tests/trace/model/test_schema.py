"""Names of the schema's numbers, and of numbers it does not have."""

from chakrakit.trace.model import (
    COMMUNICATION,
    CollectiveType,
    Member,
    NodeType,
    collective_name,
    collective_words,
    node_type_name,
)
from support.oracle import message


def test_numbers_are_those_of_the_schema():
    schema = message("Node").DESCRIPTOR.file
    for ours, name in ((NodeType, "NodeType"), (CollectiveType, "CollectiveCommType")):
        theirs = {v.name: v.number for v in schema.enum_types_by_name[name].values}
        assert {member.name: member.value for member in ours} == theirs
    fields = message("AttributeProto").DESCRIPTOR.oneofs_by_name["value"].fields
    assert {m.name: m.value for m in Member} == {field.name: field.number for field in fields}


def test_known_numbers_have_the_schemas_names():
    assert node_type_name(4) == "COMP_NODE"
    assert collective_name(7) == "REDUCE_SCATTER"


def test_other_numbers_keep_their_number():
    assert node_type_name(42) == "NODE_TYPE_42"
    assert collective_name(-1) == "COLLECTIVE_-1"


def test_options_and_results_write_collectives_in_words():
    assert collective_words(6) == "all-to-all"
    assert collective_words(7) == collective_words(8) == "reduce-scatter"


def test_communication_is_messages_and_collectives():
    assert [t.value for t in NodeType if t in COMMUNICATION] == [5, 6, 7]
