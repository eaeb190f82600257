"""A small data-parallel training step that the other examples run: layers back, gradients reduced."""

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet


def training_step(ranks: int, layers: int = 24, bucket: int = 50 << 20) -> TraceSet:
    """Backward layer by layer on one stream; each layer's gradients are reduced on another."""
    t = TraceBuilder()
    last = None
    reduced = []
    for layer in range(layers):
        last = t.comp(
            f"backward {layer}", duration_ns=400_000, stream=7, deps=[] if last is None else [last]
        )
        reduced.append(
            t.collective(
                f"gradients {layer}", CollectiveType.ALL_REDUCE, bucket, stream=20, deps=[last]
            )
        )
    t.comp("optimizer", duration_ns=600_000, stream=7, deps=reduced)
    return TraceSet([t.build()], {r: Binding(0) for r in range(ranks)}, Groups({"": range(ranks)}))
