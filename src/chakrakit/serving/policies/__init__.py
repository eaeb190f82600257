"""Policies: small classes that take over decisions of engines and of the cluster."""

from chakrakit.serving.policies.hooks import EngineView, Policy, RequestView, hooks_of
from chakrakit.serving.policies.load import policy_from

__all__ = ["EngineView", "Policy", "RequestView", "hooks_of", "policy_from"]
