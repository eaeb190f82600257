"""What a policy may look at: requests and engines as they are at the moment of its decision.

A view says nothing that a real scheduler could not know, with two exceptions: a request's `output`, and
`left`, which is None unless the policy says `knows_output = True`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from chakrakit.machines.device import PICO


class RequestView(NamedTuple):
    """A request as a policy sees it. Times are seconds, None where there is none yet."""

    number: int
    prompt: int
    output: int
    """Its tokens in the end, which a real engine does not know: for policies that are told the future."""
    priority: int
    computed: int
    generated: int
    cached: int
    blocks: int
    arrived_s: float
    preempted: int
    adapter: int
    """The adapter, or the kind of its items; -1 for none."""
    group: int
    """The group that it belongs to; -1 for none."""
    tenant: int
    """Whom it is for, as a place in the stream's `tenants`; -1 for nobody."""
    deadline_s: float | None
    """When it, or its group, is to have ended."""
    first_s: float | None
    """When it had its first token."""
    left: int | None
    """Output tokens still to come; None unless the policy says `knows_output = True`."""


class EngineView:
    """An engine as a policy sees it; what is asked for is looked up once and stays as it was."""

    def __init__(self, cluster: Any, number: int, knows_output: bool) -> None:
        self._cluster, self._knows_output = cluster, knows_output
        self.number = number

    def __repr__(self) -> str:
        return f"EngineView({self.number}, waiting={self.waiting}, running={self.running})"

    @cached_property
    def _counts(self) -> tuple[int, int, int, int]:
        counts: tuple[int, int, int, int] = self._cluster.engine(self.number)
        return counts

    @cached_property
    def _tokens(self) -> tuple[int, int, int]:
        tokens: tuple[int, int, int] = self._cluster.tokens(self.number)
        return tokens

    @cached_property
    def _state(self) -> tuple[int, Any, bool]:
        state: tuple[int, Any, bool] = self._cluster.state(self.number)
        return state

    @property
    def spec(self) -> int:
        """Its place among the kinds of engines of the cluster: of the EngineSpecs, where there are any."""
        return self._state[0]

    @property
    def role(self) -> str:
        """Whether it serves requests as a whole, or only `prefill` or `decode`."""
        return str(self._state[1].name)

    @property
    def takes_requests(self) -> bool:
        """Whether it is up and switched on."""
        return self._state[2]

    @property
    def free_blocks(self) -> int:
        """Blocks of the cache that no request holds."""
        return self._counts[0]

    @property
    def total_blocks(self) -> int:
        """Blocks of the cache."""
        return self._counts[1]

    @property
    def waiting(self) -> int:
        """Requests in its queue."""
        return self._counts[2]

    @property
    def running(self) -> int:
        """Requests that have started."""
        return self._counts[3]

    @property
    def now_s(self) -> float:
        """The time of the decision."""
        return float(self._cluster.now() * PICO)

    @property
    def tokens_held(self) -> int:
        """Tokens of the cache that requests which have started hold."""
        return self._tokens[0]

    @property
    def tokens_promised(self) -> int:
        """Tokens that requests in the queue, caches on their way here and the rest of prompts will hold."""
        return self._tokens[1]

    @property
    def prompt_waiting(self) -> int:
        """Tokens to be computed before all requests that are here have their first token."""
        return self._tokens[2]

    @cached_property
    def running_requests(self) -> list[RequestView]:
        """The requests that have started, in the order in which they did."""
        return self._requests(self._cluster.running(self.number))

    @cached_property
    def waiting_requests(self) -> list[RequestView]:
        """The requests in its queue, in order."""
        return self._requests(self._cluster.waiting(self.number))

    def matched(self, request: int) -> int:
        """Prompt tokens of a request that are in the cache."""
        return int(self._cluster.matched(self.number, request))

    def step_seconds(
        self, tokens: int, context: int = 0, prompt_tokens: int = 0, prompt_context: int = 0
    ) -> float:
        """The time of a step by the simulator's own model.

        `tokens` requests decode on top of `context` cached tokens in all, beside `prompt_tokens` of one
        prompt that has `prompt_context` cached. Ranks that step together do as much each.
        """
        sizes = (tokens, context, prompt_tokens, prompt_context)
        return float(self._cluster.step(self.number, *(int(s) for s in sizes)) * PICO)

    def _requests(self, numbers: list[int]) -> list[RequestView]:
        return [request_view(self._cluster, n, self._knows_output) for n in numbers]


class LinkView(NamedTuple):
    """The link that a cache is about to move over."""

    factor: float
    """Its bandwidth now, as a factor of what the machine says."""
    wait_s: float
    """The time until earlier moves have left both engines' ports free."""


class CacheCounts(NamedTuple):
    """What requests that started on an engine found in one of its caches since `divide` was last asked.

    All are tokens. A near miss is one of something that left so lately that a tenth more of the memory would
    have kept it.
    """

    hits: int
    misses: int
    near_misses: int


class MemoryView(NamedTuple):
    """An engine's memory, which two caches share: content that is found anywhere, and pages of requests."""

    share: float
    """The part that content has."""
    tokens: int
    """What both have room for together."""
    content: CacheCounts
    pages: CacheCounts


def memory_view(cluster: Any, engine: int) -> MemoryView:
    """The view of an engine's memory."""
    share, tokens, content, pages = cluster.division(engine)
    return MemoryView(share, tokens, CacheCounts(*content), CacheCounts(*pages))


def request_view(cluster: Any, number: int, knows_output: bool) -> RequestView:
    """The view of one request."""
    known = cluster.request(number)
    left = known[2] - known[5] if knows_output else None
    return RequestView(*(*known, left))
