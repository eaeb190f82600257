"""How groups of the presets lie on their machines."""

from __future__ import annotations

import numpy as np

from chakrakit.machines import load_machine
from chakrakit.machines.fabric import span_of


def spanned(name, n):
    machine = load_machine(name)
    return machine.library, span_of(machine, np.arange(n))
