"""Models from Hugging Face's files."""

from chakrakit.workloads.models.hugging_face.config import read_config

__all__ = ["read_config"]
