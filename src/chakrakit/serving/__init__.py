"""Serving: requests in, tokens out, down to operators and links."""

from chakrakit.serving.policies import EngineView, RequestView, policy_from
from chakrakit.serving.results import ServeResult
from chakrakit.serving.session import Serving, serve, serving_of

__all__ = [
    "EngineView",
    "RequestView",
    "ServeResult",
    "Serving",
    "policy_from",
    "serve",
    "serving_of",
]
