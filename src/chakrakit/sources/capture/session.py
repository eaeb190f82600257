"""Session: one rank of the program, run in this process without memory for its tensors and without peers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from chakrakit.sources.capture.compiled import fused
from chakrakit.sources.capture.folding import Families, digest
from chakrakit.sources.capture.observing import (
    KnownValues,
    RealValues,
    Recorder,
    Storages,
    Whereabouts,
)
from chakrakit.sources.capture.recording import CapturedRank, Finished, Lifetimes, Op, Patches
from chakrakit.sources.capture.standins import (
    Cuda,
    Distributed,
    Mail,
    Redirect,
    ValueReaders,
    autocast,
    batch_norm,
    compiler,
    context_parallel,
    cuda,
    data_parallel,
    nvml,
    offloading,
    packed,
    pipelining,
    program,
    recurrent,
    saved_files,
    sharding,
    surroundings,
    target,
    transformers,
    unnoticed,
)
from chakrakit.sources.pytorch import FollowedCalls


class CaptureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that all ranks of a capture share."""

    ranks: int
    steps: tuple[int, int] | None = None
    """First step and the one after the last; None: the second, or the first where there is only one."""
    device: str = ""
    """Name of the GPU that the script is shown; "" to leave the script its devices."""
    memory: int = 80 << 30
    local_size: int = 8
    """Ranks on one host, for LOCAL_RANK."""
    step_ends: str = ""
    """The function whose return ends a step; "" for the optimizer's step."""
    values: dict[str, float] = {}
    """Declared values of tensors that the script decides by, by `file.py:line`."""


_UNLIKE = 2
"""How many times as much a step computes as another before the report says so."""
_MUCH_ON_HOST = 64 << 20
"""Bytes that the host's operators touch in a step before the report says that they take no time: some ms."""


class Session:
    """Enter it, run the program, leave it; then `recording()`.

    Leaving undoes every replacement, so that a program can go on after its capture.
    """

    def __init__(
        self, options: CaptureOptions, rank: int, mail: Mapping[str, bytes] | None = None
    ) -> None:
        self.options, self.rank = options, rank
        self.patches = Patches()
        self.storages = Storages()
        self.where = Whereabouts()
        known_values, real_values = KnownValues(self.patches), RealValues(self.patches)
        self.recorder = Recorder(self.where, self.storages, known_values, real_values)
        self.mail = Mail(mail or {})
        self.distributed = Distributed(self.patches, rank, options.ranks, self.recorder, self.mail)
        self._values = ValueReaders(self.patches, known_values, real_values, options.values)
        self.recorder.read_value = self._values.decisive
        self.recorder.declared = self._values.declared_here
        self._stack = ExitStack()
        self._window = options.steps or (1, 2)
        self._parameters = 0
        self._peaks: dict[int, int] = {}
        """Most memory held in each step that was recorded to its end."""
        self._starts: dict[int, int] = {}

    # --- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        stack = self._stack
        stack.callback(self.patches.undo)
        stack.enter_context(_environment(self._variables()))
        self._install()
        self._install_steps()
        self.recorder.mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(self.recorder)
        stack.enter_context(Redirect(self.storages))
        self._begin(0)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._stack.close()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        return kind is Finished

    def _variables(self) -> dict[str, str]:
        """Environment variables as torchrun sets them."""
        local = min(self.options.local_size, self.options.ranks)
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.options.ranks),
            "LOCAL_RANK": str(self.rank % local),
            "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(self.rank // local),
            "ROLE_RANK": str(self.rank),
            "GROUP_WORLD_SIZE": str(-(-self.options.ranks // local)),
            "ROLE_WORLD_SIZE": str(self.options.ranks),
            "ROLE_NAME": "default",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "capture",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "WANDB_MODE": "disabled",
            "TOKENIZERS_PARALLELISM": "false",
        }

    def _install_steps(self) -> None:
        named = self.options.step_ends
        ends = (lambda: None) if named else self._on_step
        for handle in program.install(self.patches, self.where, ends):
            self._stack.callback(handle.remove)
        if named:
            calls = FollowedCalls(named, self._on_step)
            self._stack.callback(calls.stop)
            calls.start()

    def _install(self) -> None:
        patches, options = self.patches, self.options
        local = min(options.local_size, options.ranks)
        Cuda(
            patches,
            self.storages,
            self.recorder.streams,
            options.device,
            self.rank % local,
            local,
            options.memory,
        ).install()
        self.distributed.install()
        self._values.install()
        surroundings.install(patches, self.rank, self.recorder.real_values, self.storages)
        offloading.install(patches, self.storages)
        saved_files.install(patches, self.mail, self.recorder.real_values)
        compiler.install(patches, self.recorder, self.where)
        sharding.install(patches)
        transformers.install(patches)
        unnoticed.install(patches)
        pipelining.install(patches, self.mail, self.recorder, self.where)
        context_parallel.install(patches, self.recorder)
        autocast.install(patches)
        packed.install(patches, self.recorder)
        if options.device:
            self.recorder.workspace = cuda.workspace_of(options.device)
            self.recorder.multiprocessors = cuda.chip_of(options.device).multiprocessors
            cuda.install(patches)
            batch_norm.install(patches)
            target.install(patches, self.recorder, cuda.chip_of(options.device).capability)
            recurrent.install(patches, self.recorder)
            nvml.install(
                patches,
                self.storages,
                options.device,
                cuda.chip_of(options.device).capability,
                local,
                options.memory,
            )
        data_parallel.install(patches)

    # --- steps ----------------------------------------------------------------------------------

    def _wants(self, step: int) -> bool:
        """Whether a step is recorded; the first one always is, since ranks are compared by it."""
        return step == 0 or self._window[0] <= step < self._window[1]

    def _begin(self, step: int) -> None:
        self.where.step = step
        if self._wants(step):
            self.storages.restart()
            self._starts[step] = self.storages.live
            self.recorder.recording = True
        else:
            self.recorder.streams.forget()

    def _on_step(self) -> None:
        step = self.where.step
        if self.recorder.recording:
            self._parameters = self._count_parameters()
            self._peaks[step] = self.storages.peak
        self.recorder.recording = False
        if step + 1 >= self._window[1]:
            raise Finished
        self._begin(step + 1)

    def _count_parameters(self) -> int:
        """Of all modules that ran, else what optimizers update; where ranks hold shards, the whole."""
        sizes: dict[int, int] = {}
        for root in self.where.roots.values():
            sizes |= {id(p): _whole(p) for p in root.parameters()}
            sizes |= {id(p): size for m in root.modules() for p, size in _cut_from(m)}
        return sum(sizes.values() or map(_whole, self.where.updated.values()))

    @property
    def reached(self) -> int:
        """Steps that ended."""
        return self.where.step

    # --- what came out --------------------------------------------------------------------------

    def recording(self) -> CapturedRank:
        """Everything seen in the steps asked for."""
        recording = CapturedRank(
            rank=self.rank,
            world=self.options.ranks,
            ops=self.recorder.ops,
            signatures=self.recorder.signatures.listed,
            comms=self.recorder.comms,
            lifetimes=self.recorder.lifetimes,
            modules=self.where.modules,
            groups=self.distributed.groups,
            parameters=self._parameters,
            stubbed=list(self.patches.stubbed),
            warnings=list(self.patches.warnings),
            mail=self.mail.sent,
        )
        first, kept = self._flops(recording, {0}), self._flops(recording, set(self._kept_steps()))
        if kept and max(first, kept) > _UNLIKE * min(first, kept):
            recording.warnings.append(
                f"step {self._kept_steps()[0]} is recorded, with {kept / 1e9:,.3f} GFLOP; step 0 had "
                f"{first / 1e9:,.3f}: --steps names others, --step-ends what ends a step"
            )
        recording.warnings += self._host_work(recording)
        recording.first_digest = digest(recording, Families(recording.groups, recording.world), 0)
        recording.steps = self._kept_steps()
        recording.ops, recording.lifetimes = _of_steps(recording, set(recording.steps))
        recording.peak_bytes = max((self._peaks[s] for s in recording.steps), default=0)
        recording.start_bytes = self._starts[recording.steps[0]] if recording.steps else 0
        return fused(recording)

    def _host_work(self, recording: CapturedRank) -> list[str]:
        """Says how much the host computes in the steps that are kept, which takes no time in the traces."""
        kept, by_name = set(self._kept_steps()), Counter[str]()
        for op in recording.ops:
            signature = recording.signatures[op.signature]
            if op.step in kept and op.is_host and not signature.is_host and op.comm < 0:
                by_name[signature.name] += signature.moved
        if by_name.total() < _MUCH_ON_HOST * len(kept or {0}):
            return []
        return [
            f"operators on tensors of the host read and write {by_name.total() / 1e9:,.2f} GB, most in "
            f"{by_name.most_common(1)[0][0]}: they are nodes of the host that take no time"
        ]

    @staticmethod
    def _flops(recording: CapturedRank, steps: set[int]) -> float:
        """Floating-point operations of a step, on average over these."""
        flops = [s.flops for s in recording.signatures]
        return sum(flops[op.signature] for op in recording.ops if op.step in steps) / len(
            steps or {0}
        )

    def _kept_steps(self) -> list[int]:
        in_window = [s for s in self._peaks if self._window[0] <= s < self._window[1]]
        if self.options.steps is None and not in_window:
            return list(self._peaks)  # a script with a single step
        return in_window


def _whole(parameter: torch.Tensor) -> int:
    """Elements of a parameter before it was cut; FSDP1's flat ones know what they were made of."""
    flat: torch.Size | None = getattr(parameter, "_unpadded_unsharded_size", None)
    return parameter.numel() if flat is None else flat.numel()


def _cut_from(module: torch.nn.Module) -> list[tuple[torch.nn.Parameter, int]]:
    """The parameters of which FSDP1 keeps a rank's part under their own names, with their whole sizes."""
    flat: Any = getattr(getattr(module, "_handle", None), "flat_param", None)
    parts = getattr(flat, "_params", None)
    return [] if parts is None else list(zip(parts, flat._numels, strict=True))


def _of_steps(recording: CapturedRank, steps: set[int]) -> tuple[list[Op], Lifetimes]:
    """Operators of these steps, with waits and deaths renumbered; a wait for one left out becomes -1."""
    ops = recording.ops
    place = {i: n for n, i in enumerate(i for i, op in enumerate(ops) if op.step in steps)}
    for op in ops:
        op.waits_for = place.get(op.waits_for, -1)
        op.after = [place[i] for i in op.after if i in place]
    return [ops[i] for i in place], recording.lifetimes.within(place)


class _environment:  # noqa: N801 - reads as a statement
    """Variables for the time of a block."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
