"""TraceBuilder: traces written by hand, one node per call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chakrakit.errors import TraceError, nearest
from chakrakit.trace.model.edges import EdgeForm, EdgeKind, Edges
from chakrakit.trace.model.metadata import Metadata
from chakrakit.trace.model.schema import CollectiveType, NodeType
from chakrakit.trace.model.trace import Trace

_RESERVED = {"id", "data_deps", "ctrl_deps", "edge_kinds", "edge_lags_ns"}


class TraceBuilder:
    """Collects nodes and edges; `build()` makes the Trace.

    Every method that adds a node returns its id, to be named in the `deps` of later ones. Durations
    are nanoseconds, sizes bytes. Further keyword arguments become attributes.

    >>> t = TraceBuilder()
    >>> a = t.comp("gemm", duration_ns=5_000)
    >>> b = t.collective("sync grads", CollectiveType.ALL_REDUCE, 1 << 20, deps=[a])
    >>> t.build()
    Trace(2 nodes: 1 COMP, 1 COMM_COLL)
    """

    def __init__(self, metadata: Metadata | None = None) -> None:
        self._metadata = metadata
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[tuple[int, int, int, int, int, bool]] = []
        self._open: dict[str, list[int]] = {}
        """By window, the puts and gets since its last fence."""

    def node(
        self,
        name: str,
        type: NodeType,
        *,
        duration_ns: int = 0,
        start_ns: int | None = None,
        deps: Iterable[int] = (),
        ctrl_deps: Iterable[int] = (),
        **attributes: Any,
    ) -> int:
        """Any node. `deps` are data dependencies, by id; `start_ns` is for work that has been done."""
        for reserved in _RESERVED & attributes.keys():
            raise TraceError(f"{reserved!r} is set by the builder; it cannot be given")
        number = len(self._nodes)
        self._nodes.append(
            {
                "name": name,
                "type": int(type),
                **_time("start_time_micros", "start_time_ns", start_ns or 0),
                **_time("duration_micros", "duration_ns", duration_ns),
                **attributes,
            }
        )
        for parent in deps:
            self.edge(parent, number, EdgeKind.DATA)
        for parent in ctrl_deps:
            self.edge(parent, number, EdgeKind.CTRL)
        return number

    def comp(self, name: str, *, is_cpu_op: bool = False, **fields: Any) -> int:
        """A compute node."""
        return self.node(name, NodeType.COMP_NODE, is_cpu_op=is_cpu_op, **fields)

    def collective(self, name: str, kind: CollectiveType, size: int, **fields: Any) -> int:
        """A collective of `size` bytes; `pg_name=` for a group smaller than all ranks."""
        attributes = {"is_cpu_op": False, "comm_type": int(kind), "comm_size": size, **fields}
        return self.node(name, NodeType.COMM_COLL_NODE, **attributes)

    def send(
        self, name: str, src: int | str, dst: int | str, size: int, tag: int = 0, **fields: Any
    ) -> int:
        """A message to another rank; ends may be names that `TraceSet.of` knows."""
        return self._message(NodeType.COMM_SEND_NODE, name, src, dst, size, tag, fields)

    def recv(
        self, name: str, src: int | str, dst: int | str, size: int, tag: int = 0, **fields: Any
    ) -> int:
        """A message from another rank; ends may be names that `TraceSet.of` knows."""
        return self._message(NodeType.COMM_RECV_NODE, name, src, dst, size, tag, fields)

    def put(self, name: str, dst: int | str, size: int, window: str, **fields: Any) -> int:
        """A write into a window of another rank's memory, who takes no part; it ends when it is there."""
        return self._one_sided(
            NodeType.MEM_STORE_NODE, name, window, size, {"comm_dst": dst}, fields
        )

    def get(self, name: str, src: int | str, size: int, window: str, **fields: Any) -> int:
        """A read of a window of another rank's memory, who takes no part in it."""
        return self._one_sided(
            NodeType.MEM_LOAD_NODE, name, window, size, {"comm_src": src}, fields
        )

    def fence(self, window: str, deps: Iterable[int] = (), **fields: Any) -> int:
        """A barrier of all ranks after which everything that was put into the window is there."""
        open_nodes = self._open.pop(window, [])
        kind = CollectiveType.BARRIER
        return self.collective(f"fence {window}", kind, 1, deps=[*deps, *open_nodes], **fields)

    def _one_sided(
        self, type: NodeType, name: str, window: str, size: int, end: dict[str, Any], fields: Any
    ) -> int:
        if not window:
            raise TraceError("a put or get names the window that it goes to")
        node = self.node(name, type, **{"tensor_size": size, "window": window, **end, **fields})
        self._open.setdefault(window, []).append(node)
        return node

    def _message(
        self,
        type: NodeType,
        name: str,
        src: int | str,
        dst: int | str,
        size: int,
        tag: int,
        fields: Any,
    ) -> int:
        ends = {"comm_src": src, "comm_dst": dst, "comm_size": size, "comm_tag": tag}
        return self.node(name, type, **{"is_cpu_op": False, **ends, **fields})

    def edge(
        self,
        parent: int,
        child: int,
        kind: EdgeKind = EdgeKind.DATA,
        *,
        form: EdgeForm | None = None,
        lag_ns: int = 0,
    ) -> None:
        """A dependency of `child` on `parent`."""
        for end in (parent, child):
            if not 0 <= end < len(self._nodes):
                raise TraceError(f"node {end} is not in this builder; add it before its edges")
        form = kind.usual_form if form is None else form
        self._edges.append((parent, child, int(kind), int(form), lag_ns, kind.usual_ctrl))

    def build(self, ranks: Mapping[str, int] | None = None) -> Trace:
        """The trace so far; ids are 0, 1, … in the order of the calls. `ranks` gives names of ranks."""
        names = dict.fromkeys(key for node in self._nodes for key in node)
        data: dict[str, Any] = {n: [node.get(n) for node in self._nodes] for n in names}
        for end in {"comm_src", "comm_dst"} & names.keys():
            data[end] = [_numbered(value, ranks or {}) for value in data[end]]
        data.setdefault("name", [])
        edges = Edges.of(*map(list, zip(*self._edges, strict=True))) if self._edges else None
        return Trace.from_columns(data, edges, self._metadata)


def _numbered(end: int | str | None, ranks: Mapping[str, int]) -> int | None:
    """A rank by its number or name."""
    if not isinstance(end, str):
        return end
    if end not in ranks:
        hint = nearest(end, ranks) if ranks else "name ranks with TraceSet.of({NAME: builder, …})"
        raise TraceError(f"a message from or to {end!r}, which is not a rank; {hint}")
    return ranks[end]


def _time(micros: str, nanos: str, value: int) -> dict[str, int]:
    """A time's two columns: whole microseconds, and nanoseconds where they are not exact."""
    if value < 0:
        raise TraceError(f"{nanos} is {value}; times are not negative")
    return {micros: value // 1000, **({nanos: value} if value % 1000 else {})}
