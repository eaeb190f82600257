"""Simulates serving: requests, engines and step times in; latencies, figures and a Run out."""

from __future__ import annotations

from chakrakit.serving.cluster import PoolSetup, Setup, run
from chakrakit.serving.engine import EngineOptions, batch_limits
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.plan import EngineLayout
from chakrakit.serving.policies import EngineView, RequestView, hooks_of, policy_from
from chakrakit.serving.results import ServedRun, ServeResult, ServiceLevel, write_run
from chakrakit.serving.session import ServingSession, serve, serving_of

__all__ = [
    "Capacity",
    "EngineLayout",
    "EngineOptions",
    "EngineView",
    "PoolSetup",
    "RequestView",
    "ServeResult",
    "ServedRun",
    "ServiceLevel",
    "ServingSession",
    "Setup",
    "batch_limits",
    "hooks_of",
    "policy_from",
    "run",
    "serve",
    "serving_of",
    "write_run",
]
