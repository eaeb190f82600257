"""The layout of engines (parallel degrees, replicas, prefill and decode pools), and what depends on it.

Requests that an engine could never serve are refused before anything runs.
"""

from __future__ import annotations

from typing import get_args

import msgspec
import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.operators import WorkingType
from chakrakit.serving.engine import EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.requests import RequestStream
from chakrakit.serving.steps import times_on
from chakrakit.workloads.description import Decoder, Plan, Step


class EngineLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Degrees of one engine, and how many engines there are.

    With `prefill` and `decode` engines, prompts and outputs are served by different engines, whose
    tensor-parallel degrees may differ. Each of the `dp` ranks has its own requests; they step together if
    the model has experts, and are replicas otherwise.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    replicas: int = 1
    prefill: int = 0
    decode: int = 0
    prefill_tp: int = 0
    decode_tp: int = 0

    def check(self) -> None:
        """Raises an error unless every degree is 1 or more and the pools fit together."""
        for name in ("tp", "pp", "dp", "ep", "replicas"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} {getattr(self, name)}: give 1 or more")
        for pool in ("prefill", "decode"):
            engines, tp = getattr(self, pool), getattr(self, f"{pool}_tp")
            if engines < 0 or tp < 0:
                raise ConfigError(f"--{pool} {engines} --{pool}-tp {tp}: give 1 or more of each")
            if tp and not engines:
                raise ConfigError(
                    f"--{pool}-tp is for engines of --{pool}; give their number, or --tp"
                )
        if (self.prefill > 0) != (self.decode > 0):
            raise ConfigError(
                "prefill and decode engines come together; give --prefill N and --decode M"
            )
        if self.prefill and self.replicas > 1:
            raise ConfigError("--replicas goes without --prefill and --decode, which count engines")

    @property
    def apart(self) -> bool:
        """Whether prefill and decode have separate engines."""
        return self.prefill > 0

    def plan(self, tp: int, model: Decoder) -> Plan:
        """The plan of one engine; its `dp` is above 1 only where ranks step together."""
        together = self.dp if model.experts else 1
        if self.ep > 1 and (not model.experts or together % self.ep):
            raise ConfigError(
                f"--ep {self.ep} needs a model with experts and --dp a multiple of it; "
                f"{model.name} has {model.experts} experts, and dp is {self.dp}"
            )
        if model.heads % tp:
            raise ConfigError(f"--tp {tp} does not divide the {model.heads} heads of {model.name}")
        return Plan(tp=tp, pp=self.pp, dp=together, ep=self.ep, data="none")


def serving_step(dtype: str, quantization: str = "", cache_dtype: str = "") -> Step:
    """The step for which operators are recorded."""
    if dtype not in get_args(WorkingType) or quantization not in ("", "fp8", "fp4"):
        raise ConfigError(
            f"--dtype {dtype} --quantization {quantization}: give bf16, fp16 or fp32, and fp8 or fp4 "
            "for matmuls"
        )
    return Step(
        kind="serve",
        dtype=dtype,  # type: ignore[arg-type]
        matmul_dtype="fp8" if quantization else "",
        cache_dtype=cache_dtype,  # type: ignore[arg-type]
    )


def check_feasible(stream: RequestStream, engine: EngineOptions, capacity: Capacity) -> None:
    """Raises an error unless every request alone fits the cache, the longest context and the token budget."""
    # The last token's keys and values are never needed; transformers may ask for one block more.
    most = stream.prompt + stream.output - 1
    spare = 1 if engine.discipline == "transformers" else 0
    blocks = -(-most // engine.block_size) + spare
    worst = int(np.argmax(blocks))
    if blocks[worst] > capacity.blocks:
        raise ConfigError(
            f"{_request_title(stream, worst)} can never fit: {stream.prompt[worst]:,} prompt and "
            f"{stream.output[worst]:,} output tokens need {blocks[worst]:,} blocks of "
            f"{engine.block_size}, and the cache has {capacity.blocks:,} ({capacity.explained()})"
        )
    total = stream.prompt + stream.output
    if engine.max_context and int(total.max()) > engine.max_context:
        worst = int(np.argmax(total))
        raise ConfigError(
            f"{_request_title(stream, worst)} has {total[worst]:,} tokens; "
            f"the engine takes {engine.max_context:,} at most"
        )
    longest = int(np.argmax(stream.prompt))
    if not engine.chunked and int(stream.prompt[longest]) > engine.token_budget:
        raise ConfigError(
            f"{_request_title(stream, longest)} has a prompt of {stream.prompt[longest]:,} tokens; "
            f"without chunks the budget of {engine.token_budget:,} tokens per step is never enough"
        )


def _request_title(stream: RequestStream, number: int) -> str:
    name = stream.names[number] if stream.names else str(number)
    return f"request {name} (number {number + 1})"


class Handover(msgspec.Struct, frozen=True):
    """The time to move a prompt's keys and values from a prefill to a decode engine, alone on the links.

    A move takes `latency` seconds and `seconds_per_token` for each token.
    """

    seconds_per_token: float = 0.0
    latency: float = 0.0

    @classmethod
    def between(
        cls, machine: Machine, bytes_per_token: float, target: int, tokens: tuple[int, int]
    ) -> Handover:
        """The line through the simulator's times of the shortest and the longest prompt.

        `bytes_per_token` is what one rank sends to another; ranks of an engine send side by side, all as
        the first one does.
        """
        machine = _reaching(machine, target)
        place = target % machine.size
        source = 0 if place else min(1, machine.size - 1)
        short, long = tokens if tokens[0] < tokens[1] else (max(1, tokens[0] // 2), tokens[1] + 1)
        sizes = np.array([short, long]) * bytes_per_token
        low, high = times_on(machine).message_seconds(sizes, source, place).tolist()
        # A library may send a longer message faster, by another protocol: then length costs nothing.
        each = max(0.0, (high - low) / (long - short))
        return cls(each, max(0.0, low - each * short))

    def seconds(self, tokens: int) -> float:
        """What a move of so many tokens takes."""
        return self.latency + self.seconds_per_token * tokens


def _reaching(machine: Machine, device: int) -> Machine:
    """The machine with a second node, where a device lies beyond it and the preset has others to add.

    A machine of a file says what there is: what lies beyond it is taken as near as its own devices are.
    """
    if device < machine.size or not machine.is_preset:
        return machine
    return load_machine(f"{machine.name.partition(':')[0]}:{device // machine.node_size + 1}")
