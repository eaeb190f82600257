"""Why a capture cannot go on."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.sources.capture.recording import CaptureError, Finished, NeedsValue


def test_a_script_s_own_handler_does_not_stop_the_end_of_a_capture():
    def script():
        try:
            raise Finished
        except Exception:  # what many training loops have around a step
            return "went on"

    with pytest.raises(Finished):
        script()


def test_what_the_user_can_cure_is_a_configuration_error():
    with pytest.raises(ConfigError, match="declare it"):
        raise NeedsValue("train.py:3: declare it with --value")
    assert issubclass(NeedsValue, CaptureError)
