"""The cluster of engines: how it is set up, and what the core makes of it."""

from chakrakit.serving.cluster.native import Outcome, PoolSetup, Role, Router, Setup, run

__all__ = ["Outcome", "PoolSetup", "Role", "Router", "Setup", "run"]
