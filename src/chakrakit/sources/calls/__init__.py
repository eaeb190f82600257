"""Communication as recorders see it: calls without the computation between them."""

from chakrakit.sources.calls.link import Recording, link_calls
from chakrakit.sources.calls.record import STATES, Calls, Group
from chakrakit.sources.calls.trace import call_trace, times

__all__ = ["STATES", "Calls", "Group", "Recording", "call_trace", "link_calls", "times"]
