"""Whereabouts: the step, phase and module that the program is in at the moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from chakrakit.sources.capture.recording import PHASES

FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, OTHER = range(len(PHASES))
sequence_number = torch.autograd._get_sequence_nr


class Whereabouts:
    """Step, phase and module, kept up to date by hooks while the program runs.

    A backward operator belongs to the module whose forward made its autograd node: nodes are numbered as
    they are made, and the numbers seen inside a module are remembered.
    """

    def __init__(self) -> None:
        self.step = 0
        self.micro_batch = -1
        self.modules: list[str] = [""]
        self.roots: dict[int, torch.nn.Module] = {}
        """Outermost modules that ran, by id."""
        self.updated: dict[int, torch.Tensor] = {}
        """What optimizers have stepped over, by id."""
        self._phases: list[int] = [FORWARD]
        self._stack: list[int] = [0]
        self._numbers: dict[str, int] = {"": 0}
        self._names: dict[int, int] = {}
        self._made_in: dict[int, int] = {}
        self.compiled_modules: set[int] = set()
        """Ids of modules whose forward is compiled."""
        self._calls = 0
        self._compiled: list[int] = []
        self._compiled_in: dict[int, int] = {}

    @property
    def phase(self) -> int:
        """Index into PHASES."""
        return self._phases[-1]

    @property
    def module(self) -> int:
        """Index into `modules`."""
        if self._phases[-1] == BACKWARD:
            node = torch._C._current_autograd_node()
            if node is not None:
                return self._made_in.get(node._sequence_nr(), 0)
        elif self._phases[-1] in (FORWARD, RECOMPUTE):
            self._made_in[sequence_number() - 1] = self._stack[-1]
        return self._stack[-1]

    @property
    def compiled(self) -> int:
        """The call of a compiled function that is running, or whose backward is; -1 for none."""
        if self._compiled:
            call = self._compiled[-1]
            self._compiled_in[sequence_number() - 1] = call
            return call
        if self._compiled_in and self.phase in (BACKWARD, RECOMPUTE):
            node = torch._C._current_autograd_node()
            return -1 if node is None else self._compiled_in.get(node._sequence_nr(), -1)
        return -1

    @property
    def inside_compiled(self) -> bool:
        """Whether the forward of something compiled is running."""
        return bool(self._compiled)

    @contextmanager
    def in_compiled(self) -> Iterator[None]:
        """Let operators of the block belong to one compiled call; inside of another one, to that."""
        self._begin_compiled()
        try:
            yield
        finally:
            self._compiled.pop()

    def _begin_compiled(self) -> None:
        if not self._compiled:
            self._calls += 1
        self._compiled.append(self._calls - 1)

    @property
    def outside(self) -> bool:
        """Whether no module's forward is running, and no backward."""
        return len(self._stack) == 1 and self._phases[-1] != BACKWARD

    @contextmanager
    def in_phase(self, phase: int) -> Iterator[None]:
        """Give the block this phase; forward inside backward counts as recomputation."""
        if phase == FORWARD and self.phase in (BACKWARD, RECOMPUTE):
            phase = RECOMPUTE
        self._phases.append(phase)
        try:
            yield
        finally:
            self._phases.pop()

    def enter(self, module: torch.nn.Module, _: Any) -> None:
        """Note that a module's forward begins."""
        if len(self._stack) == 1 and id(module) not in self._names:
            self._name_all(module)
        self._stack.append(self._names.get(id(module), self._stack[-1]))
        self._phases.append(RECOMPUTE if self.phase in (BACKWARD, RECOMPUTE) else self.phase)
        if id(module) in self.compiled_modules:
            self._begin_compiled()

    def leave(self, module: Any = None, *_: Any) -> None:
        """Note that a module's forward ended, also by an error."""
        if id(module) in self.compiled_modules and self._compiled:
            self._compiled.pop()
        if len(self._stack) > 1:
            self._stack.pop()
            self._phases.pop()

    def _name_all(self, root: torch.nn.Module) -> None:
        self.roots[id(root)] = root
        for name, module in root.named_modules():
            number = self._numbers.setdefault(name, len(self.modules))
            if number == len(self.modules):
                self.modules.append(name)
            self._names.setdefault(id(module), number)
