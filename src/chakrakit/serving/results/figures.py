"""From what the core gives to the figures of a result, and to the table of requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, I64
from chakrakit.machines.device import PICO, Device
from chakrakit.machines.fabric import Site
from chakrakit.serving.cluster import Outcome, PoolSetup, Setup
from chakrakit.serving.results.energy import EngineLoad, Lengths, pool_joules
from chakrakit.serving.results.service_level import ServiceLevel
from chakrakit.serving.results.summary import (
    KvCache,
    PoolFigures,
    ServeResult,
    gap_spread,
    met,
    spread,
)
from chakrakit.serving.steps import StepOperators

_MS = 1e-9


@dataclass(frozen=True)
class Served:
    """A finished run: how it was set up, what came out, and on which devices."""

    setup: Setup
    outcome: Outcome
    device: Device
    devices_per_engine: tuple[int, ...]
    """By pool."""
    work: tuple[StepOperators, ...]
    """The operators of a step, by pool."""
    site: Site | None = None
    level: ServiceLevel = field(default_factory=ServiceLevel)

    def requests_table(self) -> pa.Table:
        """One row per request; times in seconds, nothing where it did not get there."""
        r, stream = self.outcome.requests, self.setup.stream
        names = stream.names or [str(i) for i in range(len(stream))]
        return pa.table(
            {
                "id": pa.array(names),
                "arrival_s": _seconds(r["arrival"]),
                "scheduled_s": _seconds(r["scheduled"]),
                "first_token_s": _seconds(r["first"]),
                "finish_s": _seconds(r["finish"]),
                "prompt": stream.prompt,
                "output": stream.output,
                "cached": r["cached"],
                "preempted": r["preempted"],
                "engine": r["engine"],
            }
        )

    def result(self) -> ServeResult:
        """All figures."""
        o, stream = self.outcome, self.setup.stream
        done = o.requests["finish"] >= 0
        arrival, first, finish, begun = (
            o.requests[n][done] for n in ("arrival", "first", "finish", "scheduled")
        )
        output, prompt = stream.output[done], stream.prompt[done]
        ttft, e2e = (_ms(times - arrival) for times in (first, finish))
        several = output > 1
        tpot = np.where(several, _ms(finish - first) / np.maximum(output - 1, 1), 0.0)
        good = met(self.level, ttft, tpot, e2e)
        began = int(o.requests["arrival"][o.requests["arrival"] >= 0].min(initial=0))
        seconds = max((int(finish.max(initial=began)) - began) * PICO, 1e-12)
        tokens = int(output.sum())
        by_class, price = self._energy(seconds, Lengths(prompt, output)), self._price(seconds)
        energy = sum(by_class.values())
        pools = self._pools(seconds)
        return ServeResult(
            requests=len(stream),
            finished=int(done.sum()),
            duration_s=seconds,
            ttft_ms=spread(ttft),
            tpot_ms=spread(tpot[several]),
            itl_ms=gap_spread(o.totals),
            e2e_ms=spread(e2e),
            queue_ms=spread(_ms(begun - arrival)),
            output_tokens_per_s=tokens / seconds,
            total_tokens_per_s=(tokens + int(prompt.sum())) / seconds,
            requests_per_s=len(output) / seconds,
            goodput=float(good.sum()) / seconds,
            attained=float(good.sum()) / len(stream),
            kv=_fullest(pools),
            preemptions=self._total("preemptions"),
            swaps=self._total("swaps"),
            cache_hit_rate=self._total("hit_tokens") / max(1, self._total("asked_tokens")),
            steps=self._total("steps"),
            mean_batch=self._total("pieces") / max(1, self._total("steps")),
            energy_joules=energy,
            energy_by_class=by_class,
            **self._site(energy, seconds),
            joules_per_token=energy / max(1, tokens),
            price=price,
            price_per_million_tokens=price / max(1, tokens) * 1e6,
            devices=sum(p.devices for p in pools),
            pools=pools,
            step_times=self.setup.pools[0].cost.about,
            notes=self._notes(),
            drafts_accepted=self._accepted(),
            moves=len(o.moves["start"]),
            move_ms=spread(_ms(o.moves["end"] - o.moves["start"]))
            if len(o.moves["start"])
            else None,
        )

    def percentiles(self, share: float) -> tuple[float, float, float]:
        """Milliseconds to the first token, per token and in all that this share of requests is within."""
        r, output = self.outcome.requests, self.setup.stream.output
        done = r["finish"] >= 0
        arrival, first, finish = (r[n][done] for n in ("arrival", "first", "finish"))
        gaps = np.maximum(output[done] - 1, 1)
        found = (first - arrival, (finish - first) / gaps, finish - arrival)
        ttft, tpot, e2e = (
            float(np.quantile(times * _MS, share)) if len(times) else 0.0 for times in found
        )
        return ttft, tpot, e2e

    def _total(self, name: str) -> int:
        return sum(int(t[name]) for t in self.outcome.totals)

    def _accepted(self) -> float | None:
        drafted = self._total("drafted")
        return self._total("accepted") / drafted if drafted else None

    def _notes(self) -> list[str]:
        stream = self.setup.stream
        notes = [*stream.notes, *(n for p in self.setup.pools for n in p.cost.notes)]
        left = int((self.outcome.requests["finish"] < 0).sum())
        if left:
            notes.append(f"{left:,} requests were never served: a policy turned them away")
        if not self.device.power:
            notes.append(f"device {self.device.name} has no power, so energy is 0")
        return list(dict.fromkeys(notes))

    # --- engines --------------------------------------------------------------------------------

    def _pools(self, seconds: float) -> list[PoolFigures]:
        found, first = [], 0
        for pool, devices in zip(self.setup.pools, self.devices_per_engine, strict=True):
            totals = self.outcome.totals[first : first + pool.engines]
            first += pool.engines
            found.append(_pool(pool, totals, devices, seconds))
        return found

    def _energy(self, seconds: float, lengths: Lengths) -> dict[str, float]:
        """Joules of all engines by class of work."""
        found: dict[str, float] = {}
        first = 0
        for pool, devices, work in zip(
            self.setup.pools, self.devices_per_engine, self.work, strict=True
        ):
            totals = self.outcome.totals[first : first + pool.engines]
            first += pool.engines
            load = EngineLoad(
                role=pool.role,
                devices=devices * pool.engines,
                tp=work.plan.tp,
                steps=sum(int(t["steps"]) for t in totals),
                tokens=sum(int(t["tokens"]) for t in totals),
                sampled=sum(int(t["pieces"]) for t in totals),
                busy=devices * sum(min(t["busy"] * PICO, seconds) for t in totals),
            )
            for name, joules in pool_joules(load, work, self.device, lengths, seconds).items():
                found[name] = found.get(name, 0.0) + joules
        return found

    def _site(self, joules: float, seconds: float) -> dict[str, float | None]:
        """What the energy comes to where the devices stand."""
        if self.site is None or not joules:
            return {}
        devices = sum(
            p.engines * d for p, d in zip(self.setup.pools, self.devices_per_engine, strict=True)
        )
        facility = self.site.facility_joules(joules, devices, seconds)
        return {"facility_joules": facility, "carbon_kg": self.site.carbon_kg(facility)}

    def _price(self, seconds: float) -> float:
        count = sum(
            p.engines * d for p, d in zip(self.setup.pools, self.devices_per_engine, strict=True)
        )
        return count * seconds / 3600 * self.device.price_per_hour


def _ms(picoseconds: I64) -> F64:
    return np.asarray(picoseconds * _MS, np.float64)


def _seconds(times: I64) -> pa.Array:
    return pa.array(times * PICO, mask=times < 0)


def _pool(
    pool: PoolSetup, totals: list[dict[str, Any]], devices: int, seconds: float
) -> PoolFigures:
    steps = sum(int(t["steps"]) for t in totals)
    kept = sum(float(t["block_time"]) for t in totals) * PICO / seconds / len(totals)
    size = pool.options.block_size
    return PoolFigures(
        role=pool.role,
        engines=pool.engines,
        devices=devices * pool.engines,
        steps=steps,
        busy=sum(t["busy"] for t in totals) * PICO / seconds / len(totals),
        mean_batch=sum(t["pieces"] for t in totals) / max(1, steps),
        mean_tokens=sum(t["tokens"] for t in totals) / max(1, steps),
        kv=KvCache(
            capacity_tokens=pool.capacity.tokens,
            mean_tokens=kept * size,
            peak_tokens=max(int(t["peak_blocks"]) for t in totals) * size,
            block_size=size,
            blocks=pool.capacity.blocks,
            bytes_per_token=pool.capacity.bytes_per_token,
            arithmetic=pool.capacity.explained(),
        ),
    )


def _fullest(pools: list[PoolFigures]) -> KvCache:
    return max((p.kv for p in pools), key=lambda kv: kv.peak_tokens / kv.capacity_tokens)
