"""The colours of kinds of time, the same in every chart and in the web app."""

from __future__ import annotations

COLORS = {
    "compute": "#0072b2",
    "communication": "#e69f00",
    "exposed communication": "#e69f00",
    "late ranks": "#f6d998",
    "bubble": "#cc79a7",
    "data": "#f0e442",
    "load": "#f0e442",
    "saving": "#8e6bbf",
    "save": "#8e6bbf",
    "copy": "#009e73",
    "exposed copy": "#009e73",
    "host": "#8a8f98",
    "idle": "#e3e5e8",
    "other idle": "#e3e5e8",
    "launch": "#56b4e9",
    "kernel gap": "#b9c4cc",
    "synchronization": "#d55e00",
    "dependency": "#9fc5e8",
    "event": "#76a5af",
    "recorded wait": "#cc79a7",
    "lane": "#9fc5e8",
    "began later": "#d9d9d9",
    "background": "#d9d9d9",
    "unexplained": "#333333",
    "other": "#999999",
    "slower": "#d55e00",
    "faster": "#0072b2",
    "same": "#b8bec7",
    "alone": "#cc79a7",
}
"""Mostly the colours of Okabe and Ito, which colour-blind people can tell apart."""
REQUEST_PARTS = {"queued": "late ranks", "prompt": "communication", "output": "compute"}
"""The parts of a request, and the kinds of time whose colours they have."""
CAMPAIGN_PARTS = {
    "train": "compute",
    "checkpoint": "save",
    "lost steps": "slower",
    "detection": "host",
    "waiting": "late ranks",
    "restart": "bubble",
    "in service": "same",
    "empty": "unexplained",
    "slow": "data",
}
"""What the job of a campaign does and how its nodes are, and the kinds of time whose colours they have."""
_OTHER = "#999999"


def color(kind: str) -> str:
    """The colour of a kind of time, the same in every chart."""
    return COLORS.get(kind, _OTHER)
