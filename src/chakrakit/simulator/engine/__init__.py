"""Traces on a machine: programs, classes of ranks, plans and the engine that runs them."""

from __future__ import annotations

from chakrakit.simulator.engine import native
from chakrakit.simulator.engine.disturb import Disturbance, Fault, link_changes
from chakrakit.simulator.engine.instances import MESSAGE
from chakrakit.simulator.engine.measured import MEASURED
from chakrakit.simulator.engine.messages import message_cost
from chakrakit.simulator.engine.native import (
    LaidOut,
    NativeSimulation,
    Outcome,
    SimulationOptions,
    one_collective,
    run,
    with_bandwidth,
)
from chakrakit.simulator.engine.placing import per_rack, straddling, whole_groups
from chakrakit.simulator.engine.planner import CollectivePolicy, Custom, DispatchPolicy, Fixed
from chakrakit.simulator.engine.plans import FIGURES, TransferPlans, link_bytes
from chakrakit.simulator.engine.program import COMM, COMPUTE, Program, row_kinds
from chakrakit.simulator.engine.rescheduling import ClassSchedule, FixedTransfers, no_machine
from chakrakit.simulator.engine.stored import ONE_SIDED, UNLIMITED, StoredOperations, most_at_once

__all__ = [
    "COMM",
    "COMPUTE",
    "FIGURES",
    "MEASURED",
    "MESSAGE",
    "ONE_SIDED",
    "UNLIMITED",
    "ClassSchedule",
    "CollectivePolicy",
    "Custom",
    "DispatchPolicy",
    "Disturbance",
    "Fault",
    "Fixed",
    "FixedTransfers",
    "LaidOut",
    "NativeSimulation",
    "Outcome",
    "Program",
    "SimulationOptions",
    "StoredOperations",
    "TransferPlans",
    "link_bytes",
    "link_changes",
    "message_cost",
    "most_at_once",
    "native",
    "no_machine",
    "one_collective",
    "per_rack",
    "row_kinds",
    "run",
    "straddling",
    "whole_groups",
    "with_bandwidth",
]
