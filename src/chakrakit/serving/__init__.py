"""Simulates serving: requests, engines and step times in; latencies, figures and a Run out."""

from __future__ import annotations

from chakrakit.serving.cache_pair import CachePair
from chakrakit.serving.cluster import PoolSetup, Setup, run
from chakrakit.serving.engine import MOST_COUNT, EngineOptions, batch_limits
from chakrakit.serving.fleet import EngineSpec, Fleet
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.links import Codec, MoveLinks
from chakrakit.serving.plan import EngineLayout
from chakrakit.serving.policies import hooks_of, policy_from
from chakrakit.serving.policy_views import EngineView, LinkView, MemoryView, RequestView
from chakrakit.serving.ranks import RankFailure
from chakrakit.serving.requests import FinishedRequest, Request, Source
from chakrakit.serving.results import ServedRun, ServeResult, ServiceLevel, write_run
from chakrakit.serving.serve import serve
from chakrakit.serving.service import Service
from chakrakit.serving.session import STREAM_CHANGES, ServingSession, serving_of
from chakrakit.serving.steadiness import (
    is_open,
    most_requests_per_s,
    requests_per_s,
    served_on,
    smallest_alike,
)

__all__ = [
    "MOST_COUNT",
    "STREAM_CHANGES",
    "CachePair",
    "Capacity",
    "Codec",
    "EngineLayout",
    "EngineOptions",
    "EngineSpec",
    "EngineView",
    "FinishedRequest",
    "Fleet",
    "LinkView",
    "MemoryView",
    "MoveLinks",
    "PoolSetup",
    "RankFailure",
    "Request",
    "RequestView",
    "ServeResult",
    "ServedRun",
    "Service",
    "ServiceLevel",
    "ServingSession",
    "Setup",
    "Source",
    "batch_limits",
    "hooks_of",
    "is_open",
    "most_requests_per_s",
    "policy_from",
    "requests_per_s",
    "run",
    "serve",
    "served_on",
    "serving_of",
    "smallest_alike",
    "write_run",
]
