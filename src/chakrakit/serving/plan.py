"""How engines are laid out: parallel degrees, replicas, pools of prefill and decode engines."""

from __future__ import annotations

from typing import get_args

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.operators import WorkingType
from chakrakit.workloads.description import Decoder, Plan, Step


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Degrees of one engine, and how many engines there are.

    With `prefill` and `decode` engines, prompts and outputs are served apart; their tensor-parallel
    degrees may differ. `dp` ranks attend to requests of their own and step together where the model has
    experts; for other models they are replicas.
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
        """Every degree is a number of engines or ranks."""
        for name in ("tp", "pp", "dp", "ep", "replicas"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} {getattr(self, name)}: give 1 or more")
        if (self.prefill > 0) != (self.decode > 0):
            raise ConfigError(
                "prefill and decode engines come together; give --prefill N and --decode M"
            )
        if self.prefill and self.replicas > 1:
            raise ConfigError("--replicas goes without --prefill and --decode, which count engines")

    @property
    def apart(self) -> bool:
        """Whether prefill and decode are served apart."""
        return self.prefill > 0

    def plan(self, tp: int, model: Decoder) -> Plan:
        """One engine's plan; `dp` counts only where ranks step together."""
        together = self.dp if model.experts else 1
        if self.ep > 1 and (not model.experts or together % self.ep):
            raise ConfigError(
                f"--ep {self.ep} needs a model with experts and --dp a multiple of it; "
                f"{model.name} has {model.experts} experts, and dp is {self.dp}"
            )
        if model.heads % tp:
            raise ConfigError(f"--tp {tp} does not divide the {model.heads} heads of {model.name}")
        return Plan(tp=tp, pp=self.pp, dp=together, ep=self.ep, data="none")


def serving_step(dtype: str, quantization: str = "") -> Step:
    """The step that operators are recorded under."""
    if dtype not in get_args(WorkingType) or quantization not in ("", "fp8", "fp4"):
        raise ConfigError(
            f"--dtype {dtype} --quantization {quantization}: give bf16, fp16 or fp32, and fp8 or fp4 "
            "for matmuls"
        )
    return Step(kind="serve", dtype=dtype, matmul_dtype="fp8" if quantization else "")  # type: ignore[arg-type]
