"""The Chakra schema's own names and numbers; knows no file and no column."""

from __future__ import annotations

from enum import IntEnum


class NodeType(IntEnum):
    """What a node does. Files may hold other numbers; they are kept as they are."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


COMMUNICATION = (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE)
"""Types of nodes that stand for a message or a collective."""


class CollectiveType(IntEnum):
    """Values of the attribute `comm_type`."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class Member(IntEnum):
    """The oneof member an attribute's value sits in; the numbers are the schema's field numbers."""

    double_val = 3
    double_list = 4
    float_val = 5
    float_list = 6
    int32_val = 7
    int32_list = 8
    int64_val = 9
    int64_list = 10
    uint32_val = 11
    uint32_list = 12
    uint64_val = 13
    uint64_list = 14
    sint32_val = 15
    sint32_list = 16
    sint64_val = 17
    sint64_list = 18
    fixed32_val = 19
    fixed32_list = 20
    fixed64_val = 21
    fixed64_list = 22
    sfixed32_val = 23
    sfixed32_list = 24
    sfixed64_val = 25
    sfixed64_list = 26
    bool_val = 27
    bool_list = 28
    string_val = 29
    string_list = 30
    bytes_val = 31
    bytes_list = 32


def node_type_name(code: int) -> str:
    """`COMP_NODE` for 4; `NODE_TYPE_42` for a number the schema does not have."""
    try:
        return NodeType(code).name
    except ValueError:
        return f"NODE_TYPE_{code}"


def collective_name(code: int) -> str:
    """`ALL_REDUCE` for 0; `COLLECTIVE_42` for a number the schema does not have."""
    try:
        return CollectiveType(code).name
    except ValueError:
        return f"COLLECTIVE_{code}"


def collective_words(code: int) -> str:
    """`all-reduce` for 0, as options and results write it; both ways to reduce and scatter are one."""
    return collective_name(code).removesuffix("_BLOCK").lower().replace("_", "-")
