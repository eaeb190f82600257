"""What all tests share: the same random examples in every run, so that a failure can be had again."""

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.load_profile("same")
