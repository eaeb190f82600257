"""Futures of communication that nobody carries out; what follows them runs when it is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Landed(torch.futures.Future[Any]):
    """What a collective gave.

    On a GPU, functions that follow run on a stream of their own once the collective is done. Run at once,
    they would stand between the operators that the program issues next; here they run when somebody waits.
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.set_result(value)

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what the function makes of this one."""
        return Later(self, callback)


class Later(torch.futures.Future[Any]):
    """What a function makes of another future, run once, when it is asked for."""

    def __init__(self, source: Any, callback: Callable[[Any], Any]) -> None:
        super().__init__()
        self._source, self._callback = source, callback

    def wait(self) -> Any:
        """Run the function, unless it has been."""
        if not super().done():
            self._source.wait()
            made = self._callback(self._source)
            self.set_result(made.wait() if isinstance(made, torch.futures.Future) else made)
        return super().value()

    value = wait

    def done(self) -> bool:
        """It can always be run."""
        return True

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what the function makes of this one."""
        return Later(self, callback)
