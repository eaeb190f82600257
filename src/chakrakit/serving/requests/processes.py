"""Draws random requests: arrival processes, lengths, shared prefixes, sessions; all from a seed.

    poisson{rate=4, prompt=512, output=128}          independent arrivals
    gamma{rate=4, cv=2, …}                           burstier (cv > 1) or more regular (cv < 1)
    bursts{rate=4, size=10, …}                       groups of `size` at once
    clients{rate=4, clients=20, cv=2, …}             many clients of unequal rates, each a gamma process
    closed{concurrency=16, …}                        a request arrives when another one ends
    diurnal{rate=4, swing=0.8, period=86400, …}      a rate that swings up and down once a period
    regimes{rates=2:8:1, every=60, …}                rates that hold for a while each, again and again
    rates{file=day.csv, …}                           rates from a file: lines of seconds and rate
    agents{rate=1, turns=8, edits=0.2, …}            sessions whose prompts grow, with earlier parts rewritten

All take n (requests), prompt and output (a number, or lognormal:MEAN:CV, uniform:LOW:HIGH,
exponential:MEAN, geometric:MEAN), prefix and prefixes (tokens shared, by how many groups), turns and
think (requests of a session and the seconds between them), priorities, adapters, deadlines (seconds by
priority, as in 2:10), models (those that sessions ask for, as in llama-3.1-8b:qwen3-14b), tenants (how
many there are, or the shares of the sessions that each has, as in 6:3:1), seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import PS_PER_S
from chakrakit.serving.requests.stream import MOST_SECONDS, RequestStream

_ARITY = {"fixed": 1, "exponential": 1, "geometric": 1, "lognormal": 2, "uniform": 2}


class LengthDistribution(msgspec.Struct, frozen=True):
    """The distribution of lengths of prompts or outputs.

    Kinds and values: `fixed` MEAN, `exponential` MEAN, `geometric` MEAN, `lognormal` MEAN CV, `uniform`
    LOW HIGH.
    """

    kind: str
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, part: str) -> LengthDistribution:
        """The distribution of a text such as `512` or `lognormal:512:0.8`."""
        kind, *rest = str(text).split(":")
        if not rest:
            kind, rest = "fixed", [kind]
        try:
            values = tuple(float(v) for v in rest)
        except ValueError:
            values = ()
        if _ARITY.get(kind) != len(values) or not all(0 < v < 1e9 for v in values):
            raise ConfigError(
                f"{part} length {text!r}: give a number above 0, or lognormal:MEAN:CV, uniform:LOW:HIGH, "
                "exponential:MEAN or geometric:MEAN"
            )
        if kind == "uniform" and values[0] > values[1]:
            raise ConfigError(f"{part} length {text!r}: the lower bound is above the upper one")
        return cls(kind, values)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Draws lengths: whole numbers, 1 or more."""
        first, last = self.values[0], self.values[-1]
        if self.kind == "fixed":
            drawn = np.full(count, first)
        elif self.kind == "exponential":
            drawn = rng.exponential(first, count)
        elif self.kind == "geometric":
            drawn = rng.geometric(1 / max(1.0, first), count).astype(np.float64)
        elif self.kind == "uniform":
            drawn = rng.uniform(first, last + 1, count) // 1
        else:
            sigma = np.sqrt(np.log1p(last**2))
            drawn = rng.lognormal(np.log(first) - sigma**2 / 2, sigma, count)
        return np.asarray(np.maximum(1, np.rint(drawn)), np.int64)


UNIT = 16
"""Tokens that one id of content stands for: a block of vLLM's, which shares prefixes by blocks."""
_MOST = 20_000_000
"""Requests, clients or parts of prompts: whatever is drawn one by one, in a gigabyte or two of memory."""


def refuse_more(count: int, quantity: str) -> None:
    """Raises an error where more would be drawn than fits in memory."""
    if count > _MOST:
        raise ConfigError(f"requests: {quantity} is {count:,}; {_MOST:,} is the most")


class Process(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of every process. The seed alone determines the requests."""

    n: int = 1000
    rate: float = 1.0
    prompt: str = "512"
    output: str = "128"
    prefix: int = 0
    prefixes: int = 1
    turns: int = 1
    think: float = 0.0
    priorities: int = 1
    adapters: int = 0
    deadlines: str = ""
    models: str = ""
    tenants: str = ""
    seed: int = 0

    def check(self) -> None:
        """Raises an error where a number is out of range."""
        if self.n < 1 or self.turns < 1 or self.prefixes < 1 or self.priorities < 1:
            raise ConfigError("requests: n, turns, prefixes and priorities must be 1 or more")
        if not 0 < self.rate < float("inf"):
            raise ConfigError(f"requests: a rate of {self.rate}; give requests per second, above 0")
        if self.prefix < 0 or self.think < 0 or self.adapters < 0 or self.seed < 0:
            raise ConfigError("requests: prefix, think, adapters and seed must be 0 or more")
        for name in ("n", "prefix", "prefixes", "turns", "priorities", "adapters"):
            refuse_more(getattr(self, name), name)

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Arrival times in seconds, ascending."""
        return np.asarray(np.cumsum(rng.exponential(1 / self.rate, count)))

    @property
    def at_once(self) -> int:
        """The constant number of requests at the same time; 0 where arrival times decide."""
        return 0


class Poisson(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Independent arrivals."""


class Gamma(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arrivals whose gaps have a coefficient of variation `cv`."""

    cv: float = 1.0

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Sums of gamma gaps."""
        return np.cumsum(_gaps(rng, self.rate, self.cv, count))


class Bursts(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups that arrive together; groups are independent."""

    size: int = 10

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Arrival times, equal within a group."""
        if self.size < 1:
            raise ConfigError(f"requests: bursts of {self.size}; give 1 or more")
        refuse_more(self.size, "the size of bursts")
        groups = -(-count // self.size)
        starts = np.cumsum(rng.exponential(self.size / self.rate, groups))
        return np.asarray(starts[np.arange(count) // self.size])


class Clients(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mixture of clients: client k has a share of the rate proportional to 1 / k, and its own gaps."""

    clients: int = 10
    cv: float = 1.0

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """The earliest of all clients' arrivals."""
        if self.clients < 1:
            raise ConfigError(f"requests: {self.clients} clients; give 1 or more")
        refuse_more(self.clients * count, "clients times n")
        share = 1 / np.arange(1, self.clients + 1)
        rates = self.rate * share / share.sum()
        each = [np.cumsum(_gaps(rng, r, self.cv, count)) for r in rates.tolist()]
        return np.sort(np.concatenate(each), kind="stable")[:count]


class Diurnal(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Independent arrivals at a rate that swings by a share of itself, once in a period of seconds."""

    swing: float = 0.5
    period: float = 86400.0

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Arrival times, by the integral of the rate."""
        if not (0 <= self.swing <= 1 and 0 < self.period < MOST_SECONDS):
            raise ConfigError("requests: a swing is from 0 to 1, and a period is above 0 s")
        phase = (np.arange(_STEPS) + 0.5) / _STEPS * 2 * np.pi
        rates = self.rate * (1 + self.swing * np.sin(phase))
        return at_rates(rng, count, np.full(_STEPS, self.period / _STEPS), rates)


_STEPS = 1000
"""Steps of constant rate that a swinging one is made of."""


class Regimes(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Independent arrivals at rates that hold `every` seconds each, one after the other, again and again."""

    rates: str = "1:2"
    every: float = 60.0

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Arrival times, by the integral of the rate."""
        rates = np.array(numbers(self.rates, "rates"))
        if not 0 < self.every < MOST_SECONDS:
            raise ConfigError(f"requests: regimes of {self.every:g} s; give more than 0")
        return at_rates(rng, count, np.full(len(rates), self.every), rates)


class Rates(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Independent arrivals at the rates of a file, which begins again at its end.

    A line has a second and the requests per second from then on; the first is 0, and the last line's rate
    is that of the time before its second.
    """

    file: str = ""

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Arrival times, by the integral of the rate."""
        return at_rates(rng, count, *rates_of(self.file))


def rates_of(file: str) -> tuple[F64, F64]:
    """Durations and rates of a file of rates."""
    if not file:
        raise ConfigError("requests: rates{file=…} needs a file of seconds and rates")
    try:
        lines = Path(file).read_text("utf-8").replace(",", " ").splitlines()
        table = np.loadtxt(lines, ndmin=2, comments="#")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"requests: rates from {file}: {error}; each line has seconds and a rate, as in `0, 2.5`"
        ) from None
    if table.shape[1] != 2 or len(table) < 2:
        raise ConfigError(f"requests: {file} needs two lines or more of `seconds,rate`")
    durations = np.diff(table[:, 0])
    if table[0, 0] != 0 or not (durations > 0).all():
        raise ConfigError(f"requests: the seconds of {file} begin with 0 and rise")
    return durations, table[:-1, 1]


def numbers(text: str, name: str) -> list[float]:
    """Numbers of 0 or more with colons between them."""
    try:
        values = [float(v) for v in str(text).split(":")]
    except ValueError:
        values = []
    if not values or not all(0 <= v < MOST_SECONDS for v in values):
        raise ConfigError(f"requests: {name} {text!r}; give numbers of 0 or more, as in 2:8:1")
    return values


def at_rates(rng: np.random.Generator, count: int, durations: F64, rates: F64) -> F64:
    """Independent arrivals at rates that hold for a while each, again and again."""
    if not (np.isfinite(rates) & (rates >= 0)).all() or not (rates * durations).any():
        raise ConfigError("requests: rates are 0 or more, and not all of them 0")
    expected = np.concatenate([[0.0], np.cumsum(rates * durations)])
    ends = np.concatenate([[0.0], np.cumsum(durations)])
    rounds, rest = np.divmod(np.cumsum(rng.exponential(1.0, count)), expected[-1])
    return np.asarray(rounds * ends[-1] + np.interp(rest, expected, ends))


class Closed(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fixed number of requests at the same time: a new one arrives when another ends."""

    concurrency: int = 1

    def arrivals(self, rng: np.random.Generator, count: int) -> F64:
        """Zeros, as arrivals follow from the ends of requests."""
        return np.zeros(count)

    @property
    def at_once(self) -> int:
        """The concurrency."""
        if self.concurrency < 1:
            raise ConfigError(f"requests: a concurrency of {self.concurrency}; give 1 or more")
        refuse_more(self.concurrency, "the concurrency")
        return self.concurrency


PROCESSES: dict[str, type[Process]] = {
    "poisson": Poisson,
    "gamma": Gamma,
    "bursts": Bursts,
    "clients": Clients,
    "closed": Closed,
    "diurnal": Diurnal,
    "regimes": Regimes,
    "rates": Rates,
}


def _gaps(rng: np.random.Generator, rate: float, cv: float, count: int) -> F64:
    if not 0 <= cv < 1e6:
        raise ConfigError(f"requests: a cv of {cv}; give 0 or more, and less than 1,000,000")
    if cv < 1e-6:
        return np.full(count, 1 / rate)
    return np.asarray(rng.gamma(1 / cv**2, cv**2 / rate, count))


def generated(process: Process) -> RequestStream:
    """The stream of a process."""
    process.check()
    rng = np.random.default_rng((process.seed, 19))
    sessions = -(-process.n // process.turns)
    times = process.arrivals(rng, sessions)
    prompt = LengthDistribution.parse(process.prompt, "prompt").draw(rng, process.n)
    output = LengthDistribution.parse(process.output, "output").draw(rng, process.n)
    number = np.arange(process.n)
    session, turn = number // process.turns, number % process.turns
    if process.turns > 1:
        prompt = _history(prompt, output, session, turn)
    after = np.where(turn > 0, number - 1, -1)
    seconds = np.where(turn > 0, process.think, times[session])
    latest = float(seconds.max())
    if not latest < MOST_SECONDS:
        raise ConfigError(
            f"requests: the last of {process.n:,} comes after {latest:,.0f} s; give a higher rate or a "
            f"shorter think, so that it comes before {MOST_SECONDS:,.0f} s"
        )
    ids, offsets = _ids(process, rng, prompt, session)
    return RequestStream(
        arrival_ps=np.rint(seconds * PS_PER_S).astype(np.int64),
        prompt=prompt,
        output=output,
        after=after.astype(np.int64),
        offsets=offsets,
        ids=ids,
        unit=UNIT,
        concurrency=process.at_once,
        notes=_cut_prefixes(process, prompt),
        **labels(process, rng, session),
    )


def _cut_prefixes(process: Process, prompt: NDArray[np.int64]) -> tuple[str, ...]:
    """Says how many prompts are shorter than what they should share."""
    short = int((prompt < process.prefix).sum())
    if not short:
        return ()
    return (
        f"{short:,} of {process.n:,} prompts are shorter than prefix={process.prefix:,} and share all they "
        "have; `prompt` counts the prefix",
    )


def labels(
    process: Process, rng: np.random.Generator, session: NDArray[np.int64]
) -> dict[str, Any]:
    """What is drawn for requests beside times and lengths: tiers, adapters, models and tenants."""
    priority = rng.integers(0, process.priorities, process.n)
    return {
        "priority": priority,
        "deadline_ps": _deadlines(process, priority),
        "adapter": _adapters(process, rng),
        **_models(process, rng, session),
        **_tenants(process, session),
    }


def _history(prompt: Any, output: Any, session: Any, turn: Any) -> NDArray[np.int64]:
    """Prompt lengths with the history: a turn's prompt begins with all earlier turns of its session."""
    tokens_before = np.cumsum(prompt + output) - (prompt + output)
    first = np.flatnonzero(turn == 0)
    return np.asarray(prompt + tokens_before - tokens_before[first][session], np.int64)


def _deadlines(process: Process, priority: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Deadlines by priority; the last one given is that of all lower priorities."""
    if not process.deadlines:
        return None
    given = np.array(numbers(process.deadlines, "deadlines"))
    seconds = given[np.minimum(priority, len(given) - 1)]
    return np.asarray(np.rint(seconds * PS_PER_S), np.int64)


def _models(
    process: Process, rng: np.random.Generator, session: NDArray[np.int64]
) -> dict[str, Any]:
    """The model that each session asks for, drawn from those that are named with colons between them."""
    names = tuple(filter(None, process.models.split(":")))
    if not names:
        return {}
    drawn = rng.integers(0, len(names), int(session[-1]) + 1)
    return {"models": names, "model": drawn[session]}


def _tenants(process: Process, session: NDArray[np.int64]) -> dict[str, Any]:
    """The tenant of each session, named by its number; drawn apart, so that nothing else changes."""
    if not process.tenants:
        return {}
    shares = np.array(numbers(process.tenants, "tenants"))
    if len(shares) == 1:
        if not (shares[0] >= 1 and shares[0] == int(shares[0])):
            raise ConfigError(
                f"requests: tenants {process.tenants!r}; give how many, 1 or more, or shares as in 6:3:1"
            )
        refuse_more(int(shares[0]), "tenants")
        shares = np.ones(int(shares[0]))
    if not shares.sum() > 0:
        raise ConfigError(f"requests: tenants {process.tenants!r}; one share at least is above 0")
    rng = np.random.default_rng((process.seed, 29))
    drawn = rng.choice(len(shares), int(session[-1]) + 1, p=shares / shares.sum())
    names = tuple(str(number) for number in range(len(shares)))
    return {"tenants": names, "tenant": drawn[session].astype(np.int64)}


def _adapters(process: Process, rng: np.random.Generator) -> NDArray[np.int64]:
    if process.adapters == 0:
        return np.full(process.n, -1, np.int64)
    return rng.integers(0, process.adapters, process.n)


def _ids(
    process: Process,
    rng: np.random.Generator,
    prompt: NDArray[np.int64],
    session: NDArray[np.int64],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Ids of content and their offsets by request; ids exist only where content is shared."""
    if process.prefix == 0 and process.turns == 1:
        return np.zeros(0, np.uint64), np.zeros(process.n + 1, np.int64)
    weights = 1 / np.arange(1, process.prefixes + 1)
    groups = rng.choice(process.prefixes, int(session[-1]) + 1, p=weights / weights.sum())
    shared = process.prefix // UNIT
    # Without sessions nothing after the prefix comes again, so that it needs no name.
    sizes = np.minimum(prompt // UNIT, shared) if process.turns == 1 else prompt // UNIT
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    refuse_more(int(offsets[-1]), f"the number of shared pieces of {UNIT} tokens")
    place = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    owner = np.where(
        place < shared, 2 * np.repeat(groups[session], sizes), 2 * np.repeat(session, sizes) + 1
    )
    return (owner.astype(np.uint64) << np.uint64(32)) + place.astype(np.uint64), offsets
