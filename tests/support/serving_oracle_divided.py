"""The oracle with a memory that pages and content share, and a border between them that moves."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from support.serving_oracle_pages import BLOCK, Block, Key, Memory, PagedOracle
from support.serving_oracle_parts import Job, Worker


@dataclass
class Half:
    """Tokens found, missed, and missed of what left lately, since the border was last moved."""

    hits: int = 0
    misses: int = 0
    near: int = 0


@dataclass
class Divided:
    """One engine's content, what left lately of both caches, and counts."""

    room: int
    pieces: OrderedDict[int, int] = field(default_factory=OrderedDict)
    ghosts: OrderedDict[int, int] = field(default_factory=OrderedDict)
    lost: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    started: int = 0
    content: Half = field(default_factory=Half)
    pages: Half = field(default_factory=Half)
    refill: int = 0


class DividedOracle(PagedOracle):
    """`rules` has `room`, tokens of content at first, and moves the border every so many requests."""

    def __init__(self, jobs: list[Job], workers: list[Worker], rules: Any) -> None:
        super().__init__(jobs, workers, rules)
        self.tokens = rules.blocks * BLOCK + rules.room
        self.remembered = int(0.1 * self.tokens)
        self.ghost_blocks = int(0.1 * (self.tokens // BLOCK))
        self.parts = {w.number: Divided(rules.room) for w in workers}

    # --- content --------------------------------------------------------------------------------

    def content(self, job: Job, worker: Worker, here: int, hit: int) -> tuple[int, int, int]:
        part = self.parts[worker.number]
        found, place = 0, 0
        for number, size in job.pieces:
            place += size
            if number in part.pieces:
                found += max(0, min(size, place - hit))
        self.count(job, part, here)
        return found, 0, min(found - self.rules.again(found), job.prompt - 1 - hit)

    def count(self, job: Job, part: Divided, here: int) -> None:
        part.started += 1
        most, block = (job.prompt - 1) // BLOCK, here // BLOCK
        part.pages.hits += here
        part.pages.misses += most * BLOCK - here
        while block < most and self.key(job, block) in part.lost:
            part.pages.near += BLOCK
            block += 1
        for number, size in job.pieces:
            part.content.hits += size * (number in part.pieces)
            part.content.misses += size * (number not in part.pieces)
            part.content.near += size * (number in part.ghosts)

    def keep(self, job: Job, worker: Worker) -> None:
        part = self.parts[worker.number]
        for number, size in job.pieces:
            if size > part.room:
                continue
            if number in part.pieces:
                part.pieces.move_to_end(number)
                continue
            part.ghosts.pop(number, None)
            self.shrink(part, part.room - size)
            part.pieces[number] = size

    def shrink(self, part: Divided, most: int) -> None:
        while sum(part.pieces.values()) > most:
            number, size = part.pieces.popitem(last=False)
            if size <= self.remembered:
                part.ghosts[number] = size
            while sum(part.ghosts.values()) > self.remembered:
                part.ghosts.popitem(last=False)

    def leave(self, memory: Memory, block: Block, worker: Worker) -> None:
        lost = self.parts[worker.number].lost
        if block.key and self.ghost_blocks:
            lost[block.key] = None
            lost.move_to_end(block.key)
            if len(lost) > self.ghost_blocks:
                lost.popitem(last=False)
        super().leave(memory, block, worker)

    # --- the border -----------------------------------------------------------------------------

    def batch(self, worker: Worker) -> tuple[list[tuple[Job, int, int]], int, int]:
        part = self.parts[worker.number]
        if part.started >= self.rules.every:
            self.divide(worker, part)
        batch, rotated, fetched = super().batch(worker)
        if batch:
            fetched, part.refill = fetched + part.refill, 0
        return batch, rotated, fetched

    def divide(self, worker: Worker, part: Divided) -> None:
        share = self.rules.divide(part.room / self.tokens, part.content, part.pages)
        part.started, part.content, part.pages = 0, Half(), Half()
        if share is None:
            return
        longest = max(job.prompt + job.output for job in self.jobs)
        most = self.tokens - -(-longest // BLOCK) * BLOCK
        part.room = max(0, min(int(share * self.tokens), most))
        self.shrink(part, part.room)
        memory, blocks = self.memory[worker.number], (self.tokens - part.room) // BLOCK
        self.resize(memory, blocks, worker)
        if self.rules.eager:
            self.refill(memory, part)

    def resize(self, memory: Memory, blocks: int, worker: Worker) -> None:
        held = {id(b) for mine in memory.of.values() for b in mine}
        while len(held) + len(memory.free) > blocks:
            self.leave(memory, memory.free.pop(0), worker)
        while len(held) + len(memory.free) < blocks:
            memory.free.insert(0, Block())

    def refill(self, memory: Memory, part: Divided) -> None:
        """The host's newest into pages that hold nothing; content that left last."""
        row = []
        for block in memory.free:
            if block.key:
                break
            row.append(block)
        newest = [k for k in reversed(memory.host) if k not in memory.named][: len(row)]
        for block, key in zip(row[len(row) - len(newest) :], reversed(newest), strict=True):
            block.key, block.owner, memory.named[key] = key, memory.host[key], block
        memory.moved += len(newest)
        while part.ghosts:
            number, size = next(reversed(part.ghosts.items()))
            if sum(part.pieces.values()) + size > part.room:
                break
            del part.ghosts[number]
            part.pieces[number] = size
            part.pieces.move_to_end(number, last=False)
            part.refill += size
