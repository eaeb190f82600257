"""Models from Hugging Face's files."""

from chakrakit.workloads.models.hugging_face.config import read_config
from chakrakit.workloads.models.hugging_face.local_cache import cached_config

__all__ = ["cached_config", "read_config"]
