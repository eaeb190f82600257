"""PyTorch's transformer modules, which look at a mask's values to see whether it is causal."""

from __future__ import annotations

from typing import Any

from torch.nn.modules import transformer

from chakrakit.sources.capture.recording import Patches, script_line

_CAUSAL = "_chakra_causal"


def install(patches: Patches) -> None:
    """Remember which masks PyTorch made as causal ones; any other is taken not to be causal."""
    plain = transformer._generate_square_subsequent_mask

    def generate(size: int, *args: Any, **kwargs: Any) -> Any:
        mask = plain(size, *args, **kwargs)
        setattr(mask, _CAUSAL, True)
        return mask

    def detect(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        if mask is None or is_causal is not None:
            return is_causal is True
        if not hasattr(mask, _CAUSAL):
            patches.warn(f"{script_line()}: the mask is taken not to be a causal one")
        return hasattr(mask, _CAUSAL) and size in (None, mask.size(-1))

    patches.set(transformer, "_generate_square_subsequent_mask", generate)
    patches.set(transformer, "_detect_is_causal_mask", detect)
