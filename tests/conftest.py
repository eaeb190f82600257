"""What all tests share: the same random examples in every run, so that a failure can be had again."""

from hypothesis import settings

from support.engines import pickled  # noqa: F401 - a fixture

settings.register_profile("same", derandomize=True)
settings.load_profile("same")
