"""Serving: requests in, tokens out, down to operators and links."""

from __future__ import annotations

from chakrakit.serving.cluster import PoolSetup, Setup, run
from chakrakit.serving.engine import EngineOptions, batch_limits
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.plan import Layout
from chakrakit.serving.policies import EngineView, RequestView, hooks_of, policy_from
from chakrakit.serving.results import Served, ServeResult, ServiceLevel, write_run
from chakrakit.serving.session import Serving, serve, serving_of

__all__ = [
    "Capacity",
    "EngineOptions",
    "EngineView",
    "Layout",
    "PoolSetup",
    "RequestView",
    "ServeResult",
    "Served",
    "ServiceLevel",
    "Serving",
    "Setup",
    "batch_limits",
    "hooks_of",
    "policy_from",
    "run",
    "serve",
    "serving_of",
    "write_run",
]
