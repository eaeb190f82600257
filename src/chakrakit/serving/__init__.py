"""Simulates serving: requests, engines and step times in; latencies, figures and a Run out."""

from __future__ import annotations

from chakrakit.serving.engine import EngineOptions, batch_limits
from chakrakit.serving.plan import EngineLayout
from chakrakit.serving.policies import EngineView, RequestView, policy_from
from chakrakit.serving.results import ServedRun, ServeResult, ServiceLevel, write_run
from chakrakit.serving.session import ServingSession, serve, serving_of

__all__ = [
    "EngineLayout",
    "EngineOptions",
    "EngineView",
    "RequestView",
    "ServeResult",
    "ServedRun",
    "ServiceLevel",
    "ServingSession",
    "batch_limits",
    "policy_from",
    "serve",
    "serving_of",
    "write_run",
]
