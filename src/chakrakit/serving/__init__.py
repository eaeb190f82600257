"""Serving: requests in, tokens out, down to operators and links."""

from __future__ import annotations

from chakrakit.serving.engine import EngineOptions, batch_limits
from chakrakit.serving.plan import Layout
from chakrakit.serving.policies import EngineView, RequestView, policy_from
from chakrakit.serving.results import Served, ServeResult, ServiceLevel, write_run
from chakrakit.serving.session import Serving, serve, serving_of

__all__ = [
    "EngineOptions",
    "EngineView",
    "Layout",
    "RequestView",
    "ServeResult",
    "Served",
    "ServiceLevel",
    "Serving",
    "batch_limits",
    "policy_from",
    "serve",
    "serving_of",
    "write_run",
]
