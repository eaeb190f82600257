"""What a serving engine puts into each pass when all requests are there from the start.

The engine is the one that `serve` runs, in the compiled core, with steps that all take the same time and
a cache that never runs out: what is left is its continuous batching.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import chakrakit.core as core

Columns = dict[str, np.ndarray]
_ALWAYS = 2**62


def continuous_batches(
    prompts: Sequence[int], output: int, token_budget: int, concurrency: int
) -> Columns:
    """Pieces in the order they run: step, request, tokens, context, and output tokens it gives."""
    options = core.ServingOptions()
    options.token_budget, options.max_requests = token_budget, concurrency
    options.block_size, options.num_blocks = max(prompts) + output, concurrency
    cluster = core.ServingCluster(_problem(_together(prompts, output), options))
    cluster.run()
    return cluster.pieces()


def _together(prompts: Sequence[int], output: int) -> core.ServingRequests:
    none = np.zeros(len(prompts), np.int64)
    return core.ServingRequests(
        arrival=none,
        prompt=np.array(prompts, np.int64),
        output=none + output,
        after=none - 1,
        priority=none,
        adapter=none - 1,
        offsets=np.zeros(len(prompts) + 1, np.int64),
        ids=np.zeros(0, np.uint64),
        unit=1,
    )


def _problem(requests: core.ServingRequests, options: core.ServingOptions) -> core.ServingProblem:
    free = core.ServingRoofline(ps_per_pair=0.0, ps_per_token=0.0, ps_per_context=0.0, least=0.0)
    cost = core.ServingCost(
        dense=lambda _tokens: 1,
        head=lambda _sampled: 0,
        attention=free,
        captured=np.zeros(0, np.int64),
        adapter=0,
        draft=0,
    )
    whole = core.ServingRole.whole
    pool = core.ServingPool(role=whole, engines=1, ranks=1, options=options, cost=cost)
    problem = core.ServingProblem(
        requests=requests,
        pools=[pool],
        router=core.ServingRouter.turn,
        concurrency=0,
        remote_blocks=0,
    )
    problem.record(False, 0, _ALWAYS, 0)
    return problem
