"""What a trace's device rows compute: the operators that launched them, and the rows of each operation."""

from __future__ import annotations

from chakrakit.machines.operations.launchers import Launchers, Touch, Work, operations_of

__all__ = ["Launchers", "Touch", "Work", "operations_of"]
