"""The oracle with pages of a prefix cache, a host that takes what leaves them, and a store behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from support.serving_oracle import Oracle
from support.serving_oracle_parts import Job, Worker

BLOCK, WHOLE = 16, 1 << 20
Key = tuple[str, int, int] | None


@dataclass(eq=False)
class Block:
    """A page: what it holds, who computed that, and how many requests hold it."""

    key: Key = None
    owner: int = -1
    holders: int = 0


@dataclass
class Memory:
    """One engine's pages. Free ones stand in a row, those to be reused next in front."""

    free: list[Block]
    host: dict[Key, int] = field(default_factory=dict)
    of: dict[int, list[Block]] = field(default_factory=dict)
    named: dict[Key, Block] = field(default_factory=dict)
    moved: int = 0
    stored: dict[int, int] = field(default_factory=dict)


class PagedOracle(Oracle):
    """`rules` has `blocks`, `host_blocks`, `store_blocks`, times per block, and the codec of a request."""

    def __init__(self, jobs: list[Job], workers: list[Worker], rules: Any) -> None:
        super().__init__(jobs, workers, rules)
        self.memory = {w.number: Memory([Block() for _ in range(rules.blocks)]) for w in workers}
        self.store: dict[Key, tuple[int, int]] = {}

    def key(self, job: Job, block: int) -> Key:
        """A block of the prompt by its content, one of the output by its request."""
        if (block + 1) * BLOCK <= job.prompt:
            ids = self.rules.ids[job.number]
            return ("content", ids[block], 0) if block < len(ids) else None
        return ("output", job.number, block)

    # --- where content is -----------------------------------------------------------------------

    def cached(self, job: Job, worker: Worker) -> tuple[int, int, int]:
        memory = self.memory[worker.number]
        most = (job.prompt + job.generated - 1) // BLOCK
        here = 0
        while here < most and self.key(job, here) in memory.named and self.key(job, here):
            here += 1
        hit = here
        while (
            hit < most and (key := self.key(job, hit)) and (key in memory.host or key in self.store)
        ):
            hit += 1
        away = [self.key(job, b) for b in range(here, hit)]
        rotated, fetched, kept = self.content(job, worker, here * BLOCK, hit * BLOCK)
        for key in away:
            if key in memory.host:
                memory.moved += 1
            else:
                codec = self.store[key][0]
                memory.stored[codec] = memory.stored.get(codec, 0) + 1
        memory.of[job.number] = [memory.named[self.key(job, b)] for b in range(here)]
        for block in memory.of[job.number]:
            if not block.holders:
                memory.free.remove(block)
            block.holders += 1
        self.new = (here, hit * BLOCK + kept)
        return hit * BLOCK + kept, rotated, fetched

    def content(self, job: Job, worker: Worker, here: int, hit: int) -> tuple[int, int, int]:
        """Content put in place, fetched, and kept, behind the first tokens of a prompt."""
        return 0, 0, 0

    # --- pages ----------------------------------------------------------------------------------

    def piece(
        self, batch: list[tuple[Job, int, int]], job: Job, budget: int, worker: Worker
    ) -> int:
        memory = self.memory[worker.number]
        tokens = super().piece(batch, job, budget, worker)
        mine = memory.of[job.number]
        while len(mine) * BLOCK < job.computed + tokens:
            block = memory.free.pop(0)
            self.leave(memory, block, worker)
            block.holders = 1
            mine.append(block)
        first, computed = self.new if self.new[0] >= 0 else (job.computed // BLOCK, job.computed)
        upto = (
            (computed + tokens)
            if self.rules.host_blocks or self.rules.store_blocks
            else min(computed + tokens, job.prompt)
        )
        for b in range(first, upto // BLOCK):
            if (key := self.key(job, b)) and not mine[b].key and key not in memory.named:
                mine[b].key, mine[b].owner, memory.named[key] = key, job.number, mine[b]
        self.new = (-1, 0)
        return tokens

    new: tuple[int, int] = (-1, 0)

    def leave(self, memory: Memory, block: Block, worker: Worker) -> None:
        """What a page held goes to the host, and what the host has held longest to the store."""
        key, block.key = block.key, None
        if not key:
            return
        del memory.named[key]
        if not self.rules.host_blocks:
            self.keep_in_store(key, block.owner)
        elif key not in memory.host:
            if len(memory.host) == self.rules.host_blocks:
                oldest = next(iter(memory.host))
                self.keep_in_store(oldest, memory.host.pop(oldest))
            memory.host[key] = block.owner

    def keep_in_store(self, key: Key, owner: int) -> None:
        if not self.rules.store_blocks or key in self.store:
            return
        codec = self.rules.store_codec(owner)
        size = max(1, math.floor(WHOLE / self.rules.codecs[codec][0] + 0.5))
        while sum(s for _, s in self.store.values()) + size > self.rules.store_blocks * WHOLE:
            del self.store[next(iter(self.store))]
        self.store[key] = (codec, size)

    def ended(self, job: Job) -> None:
        memory = self.memory[job.engine]
        for block in reversed(memory.of.pop(job.number)):
            block.holders -= 1
            if not block.holders:
                memory.free.append(block)
        super().ended(job)

    def brought(self, workers: list[Worker]) -> int:
        """Blocks of the host, and what the store sends and a device decodes, piece by piece."""
        moved, fetched = 0.0, 0.0
        for memory in (self.memory[w.number] for w in workers):
            moved = max(moved, float(memory.moved))
            counts, memory.moved, memory.stored = memory.stored, 0, {}
            work = sum(
                n * self.rules.store_ps / self.rules.codecs[c][0] for c, n in sorted(counts.items())
            )
            decoded = sum(n * BLOCK * self.rules.codecs[c][2] for c, n in sorted(counts.items()))
            sent = (
                float(self.rules.sent(self.now, work) - self.now)
                if work and self.rules.schedule
                else work
            )
            fetched = max(fetched, max(sent, decoded) + min(sent, decoded) / self.rules.pieces)
        return math.floor(moved * self.rules.host_ps + fetched + 0.5)
