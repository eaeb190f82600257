"""How groups of the presets lie on their machines."""

from __future__ import annotations

import numpy as np

from chakrakit.machines.fabric import span_of
from chakrakit.machines.load import load_machine


def spanned(name, n):
    machine = load_machine(name)
    return machine.library, span_of(machine, np.arange(n))
