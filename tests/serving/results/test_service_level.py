"""Service levels from text."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.results import ServiceLevel


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (None, ServiceLevel()),
        ("", ServiceLevel()),
        ("ttft=500, tpot=50", ServiceLevel(500.0, 50.0)),
        ("e2e=1e4", ServiceLevel(e2e=10_000.0)),
    ],
)
def test_limits_in_milliseconds(text, level):
    assert ServiceLevel.parse(text) == level


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ttft", "'ttft' should be ttft=MS, tpot=MS or e2e=MS"),
        ("ttft=soon", "--slo 'ttft=soon': 'soon' is not a number"),
        ("tftt=5", "should be ttft=MS, tpot=MS or e2e=MS"),
        ("p99_ttft=200", "should be ttft=MS, tpot=MS or e2e=MS"),
    ],
)
def test_what_is_no_level_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        ServiceLevel.parse(text)
