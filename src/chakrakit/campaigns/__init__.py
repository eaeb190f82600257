"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""
