"""AICB's CSV of a workload: what one iteration communicates, in the order of issue.

Line 1: `[rank0 ~ rank127]`, the ranks. Line 2: names of columns: comm_type (`CommType.all_reduce`),
comm_group (`CommGroup.tp_group`, dp, pp, ep, …), comm_group_size, msg_size in bytes, stage, dst, src,
additional, and results that are empty. `CommType.epoch_end` ends an iteration; what stands before the
first is start-up. `CommType.computation` has its time in `_elapsed_time`, in µs. Tensor parallelism is
innermost; data-parallel groups are the ranks with the same place in it.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

_HEAD = re.compile(rb"\[rank(\d{1,9})(?:\s*~\s*rank(\d{1,9}))?\]\s*\n\s*comm_type,")
_KINDS = {
    "all_reduce": CollectiveType.ALL_REDUCE,
    "all_gather": CollectiveType.ALL_GATHER,
    "all_gather_into_tensor": CollectiveType.ALL_GATHER,
    "reduce_scatter": CollectiveType.REDUCE_SCATTER,
    "reduce_scatter_tensor": CollectiveType.REDUCE_SCATTER,
    "all_to_all": CollectiveType.ALL_TO_ALL,
    "all_to_all_single": CollectiveType.ALL_TO_ALL,
    "broadcast": CollectiveType.BROADCAST,
    "reduce": CollectiveType.REDUCE,
    "barrier": CollectiveType.BARRIER,
}
_MESSAGES = ("isend", "irecv", "send", "recv")
_MOST_RANKS = 1 << 20
"""Ranks that a file may ask for: a million, of which each gets a binding."""


def is_aicb(head: bytes) -> bool:
    """Whether text begins with a range of ranks and the names of columns."""
    return _HEAD.match(head) is not None


def read_aicb(data: bytes, path: str) -> TraceSet:
    """The traces of a workload: one program that all ranks run."""
    head = _HEAD.match(data)
    assert head is not None
    ranks = int(head[2] or head[1]) - int(head[1]) + 1 if head[2] else 1
    if not 0 < ranks <= _MOST_RANKS:
        raise FormatError(f"line 1: {ranks:,} ranks", path=path)
    text = data.decode("utf-8", "replace").split("\n", 1)[1]
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise FormatError(f"not CSV: {error}", path=path) from None
    return _Program(ranks, path).traces(rows)


class _Program:
    def __init__(self, ranks: int, path: str) -> None:
        self.ranks, self.path = ranks, path
        self.builder = TraceBuilder()
        self.sizes: dict[str, int] = {}
        self.left_out = 0

    def traces(self, rows: list[dict[str, Any]]) -> TraceSet:
        last: list[int] = []
        epoch = 0
        for number, row in enumerate(rows, 3):
            kind = str(row.get("comm_type") or "").removeprefix("CommType.")
            if kind == "epoch_end":
                epoch += 1
                continue
            last = self._row(row, kind, last, epoch, f"line {number}")
        groups: Any = {
            name: self._groups(name, size) for name, size in self.sizes.items() if size > 1
        }
        traces = TraceSet.of(self.builder, ranks=self.ranks, groups=groups)
        settings: dict[str, Any] = {}
        if self.left_out:
            settings["assumed"] = [
                f"{self.left_out} messages are left out: their ends differ by rank"
            ]
        return traces.with_card(
            traces.card.replace(tool="AICB", source=[self.path], settings=settings)
        )

    def _row(
        self, row: dict[str, Any], kind: str, last: list[int], epoch: int, where: str
    ) -> list[int]:
        stage = str(row.get("stage") or kind)
        if kind == "computation":
            took = self._number(row, "_elapsed_time", where)
            return [self.builder.comp(stage, duration_ns=round(took * 1000), deps=last, step=epoch)]
        if kind in _MESSAGES:
            self.left_out += 1
            return last
        if kind not in _KINDS:
            raise FormatError(f"{where}: no communication {kind[:40]!r}", path=self.path)
        group = str(row.get("comm_group") or "").removeprefix("CommGroup.")
        size, members = (self._whole(row, c, where) for c in ("msg_size", "comm_group_size"))
        if members < 1 or self.ranks % members or self.sizes.setdefault(group, members) != members:
            raise FormatError(
                f"{where}: a group {group[:40]!r} of {members}, which does not divide {self.ranks} ranks or "
                "had another size before",
                path=self.path,
            )
        shard = size // members if _KINDS[kind] == CollectiveType.ALL_GATHER else size
        name = {} if members == 1 else {"pg_name": group}
        if members == 1:
            return last
        fields = {"deps": last, "step": epoch, **name}
        return [self.builder.collective(f"{stage} {kind}", _KINDS[kind], max(shard, 1), **fields)]

    def _number(self, row: dict[str, Any], column: str, where: str) -> float:
        """What a row has in a column, 0 where that is empty."""
        text = str(row.get(column) or "").strip()
        if text in ("", "None"):
            return 0.0
        if not re.fullmatch(r"\d{1,15}(\.\d{1,12})?", text, re.ASCII):
            raise FormatError(
                f"{where}: {column} is {text[:40]!r}; it must be a number, 0 or more",
                path=self.path,
            )
        return float(text)

    def _whole(self, row: dict[str, Any], column: str, where: str) -> int:
        number = self._number(row, column, where)
        if not number.is_integer():
            raise FormatError(
                f"{where}: {column} is {number}; it must be a whole number", path=self.path
            )
        return int(number)

    def _groups(self, name: str, size: int) -> list[list[int]]:
        """Tensor-parallel groups are neighbours, all others stride over those inside them."""
        if name.startswith(("tp", "cp")) or size == self.ranks:
            return [list(range(i, i + size)) for i in range(0, self.ranks, size)]
        stride = self.sizes.get("tp_group", 1)
        if stride * size > self.ranks or self.ranks % (stride * size):
            stride = self.ranks // size
        return [
            [base + first + stride * i for i in range(size)]
            for base in range(0, self.ranks, stride * size)
            for first in range(stride)
        ]
