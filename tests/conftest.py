"""What all tests share: the same random examples in every run, and no limit on how long one takes."""

from hypothesis import HealthCheck, settings

from support.engines import pickled  # noqa: F401 - a fixture

settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")
