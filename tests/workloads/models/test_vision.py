"""Parameters of vision towers: computed from a configuration, and their tensors counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest

from chakrakit.workloads.models.hugging_face.keys import Keys
from chakrakit.workloads.models.hugging_face.vision import tower_of

H, F, TEXT, LAYERS, PATCH = 4, 6, 10, 3, 5
"""Sizes that no two products of them share: hidden, MLP, the text's hidden, layers, side of a patch."""

Shape = tuple[int, ...]


def linear(inputs: int, outputs: int) -> Iterator[Shape]:
    """A matrix and its bias."""
    yield (outputs, inputs)
    yield (outputs,)


def layer_norm(size: int) -> Iterator[Shape]:
    """A weight and a bias."""
    yield from ((size,), (size,))


def encoder() -> Iterator[Shape]:
    """Layers of attention and an MLP with biases, and two layer norms each."""
    for _ in range(LAYERS):
        for _ in "qkvo":
            yield from linear(H, H)
        yield from linear(H, F)
        yield from linear(F, H)
        yield from layer_norm(H)
        yield from layer_norm(H)


def merger(out: int, patches: int = 4) -> Iterator[Shape]:
    """Several patches side by side through two linear maps."""
    yield from linear(patches * H, patches * H)
    yield from linear(patches * H, out)


QWEN3 = {
    "depth": LAYERS, "hidden_size": H, "intermediate_size": F, "out_hidden_size": TEXT,
    "patch_size": PATCH, "num_position_embeddings": 7, "deepstack_visual_indexes": [0, 2],
}  # fmt: skip


def qwen3() -> Iterator[Shape]:
    yield from linear(2 * 3 * PATCH * PATCH, H)
    yield (7, H)
    yield from encoder()
    yield from layer_norm(H)
    yield from merger(TEXT)
    for _ in range(2):  # mergers after some layers have their norm behind the patches' joining
        yield from layer_norm(4 * H)
        yield from merger(TEXT)


QWEN2 = {
    "depth": LAYERS, "embed_dim": H, "hidden_size": TEXT, "mlp_ratio": 2, "patch_size": PATCH,
}  # fmt: skip


def qwen2() -> Iterator[Shape]:
    yield (H, 3, 2, PATCH, PATCH)
    for _ in range(LAYERS):
        for _ in "qkvo":
            yield from linear(H, H)
        yield from linear(H, 2 * H)
        yield from linear(2 * H, H)
        yield from layer_norm(H)
        yield from layer_norm(H)
    yield from layer_norm(H)
    yield from merger(TEXT)


QWEN25 = {
    "depth": LAYERS, "hidden_size": H, "intermediate_size": F, "out_hidden_size": TEXT,
    "patch_size": PATCH,
}  # fmt: skip


def qwen25() -> Iterator[Shape]:
    yield (H, 3, 2, PATCH, PATCH)
    for _ in range(LAYERS):
        for _ in "qkvo":
            yield from linear(H, H)
        for _ in ("gate", "up"):
            yield from linear(H, F)
        yield from linear(F, H)
        yield from ((H,), (H,))
    yield (H,)
    yield from merger(TEXT)


SIGLIP = {
    "num_hidden_layers": LAYERS, "hidden_size": H, "intermediate_size": F, "patch_size": PATCH,
    "image_size": 3 * PATCH + 1,
}  # fmt: skip


def siglip(head: bool = True) -> Iterator[Shape]:
    yield from linear(3 * PATCH * PATCH, H)
    yield (3 * 3, H)
    yield from encoder()
    yield from layer_norm(H)
    if head:
        yield (H,)
        for _ in "qkvo":
            yield from linear(H, H)
        yield from layer_norm(H)
        yield from linear(H, F)
        yield from linear(F, H)
    yield (H,)
    yield (TEXT, H)


GEMMA4 = {
    "num_hidden_layers": LAYERS, "hidden_size": H, "intermediate_size": F, "head_dim": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "patch_size": PATCH,
    "position_embedding_size": 11,
}  # fmt: skip


def gemma4() -> Iterator[Shape]:
    yield (H, 3 * PATCH * PATCH)
    yield (2, 11, H)
    for _ in range(LAYERS):
        yield from ((4 * 8, H), (2 * 8, H), (2 * 8, H), (H, 4 * 8))
        yield from ((8,), (8,))
        yield from ((F, H), (F, H), (H, F))
        yield from ((H,), (H,), (H,), (H,))
    yield (TEXT, H)


PIXTRAL = {
    "num_hidden_layers": LAYERS, "hidden_size": H, "intermediate_size": F, "patch_size": PATCH,
}  # fmt: skip


def pixtral() -> Iterator[Shape]:
    yield (H, 3, PATCH, PATCH)
    yield (H,)
    for _ in range(LAYERS):
        yield from ((H, H), (H, H), (H, H), (H, H))
        yield from ((F, H), (F, H), (H, F))
        yield from ((H,), (H,))
    yield (H,)
    yield (H, 4 * H)
    yield (TEXT, H)
    yield (TEXT, TEXT)


LLAMA4 = SIGLIP | {"projector_input_dim": 12, "projector_output_dim": 14, "vision_output_dim": 15}


def llama4() -> Iterator[Shape]:
    yield (H, 3 * PATCH * PATCH)
    yield (H,)
    yield (3 * 3 + 1, H)
    yield from layer_norm(H)
    yield from encoder()
    yield from layer_norm(H)
    yield (12, F)
    yield (14, 12)
    yield (TEXT, 15)


KIMI = {
    "vt_num_hidden_layers": LAYERS, "vt_hidden_size": H, "vt_intermediate_size": F,
    "merge_kernel_size": [2, 3], "init_pos_emb_height": 7, "init_pos_emb_width": 9,
    "patch_size": PATCH,
}  # fmt: skip


def kimi() -> Iterator[Shape]:
    yield from linear(3 * PATCH * PATCH, H)
    yield (7, 9, H)
    yield from encoder()
    yield from layer_norm(H)
    yield from layer_norm(H)
    yield from merger(TEXT, patches=6)


MINIMAX = {
    "num_hidden_layers": LAYERS, "hidden_size": H, "intermediate_size": F, "patch_size": PATCH,
    "img_token_compression_config": {"temporal_patch_size": 3, "spatial_merge_size": 4},
}  # fmt: skip


def minimax() -> Iterator[Shape]:
    yield (H, 3, 3, PATCH, PATCH)
    yield from layer_norm(H)
    yield from encoder()
    yield from linear(H, TEXT)
    yield from linear(TEXT, TEXT)
    yield from linear(16 * TEXT, TEXT)
    yield from linear(TEXT, TEXT)


@pytest.mark.parametrize(
    ("model_type", "vision", "tensors"),
    [
        ("qwen3_vl", QWEN3, [*qwen3()]),
        ("qwen2_vl", QWEN2, [*qwen2()]),
        ("qwen2_5_vl", QWEN25, [*qwen25()]),
        ("gemma3", SIGLIP, [*siglip()]),
        ("gemma3", SIGLIP | {"vision_use_head": False}, [*siglip(head=False)]),
        ("gemma4", GEMMA4, [*gemma4()]),
        ("mistral3", PIXTRAL, [*pixtral()]),
        ("llama4", LLAMA4, [*llama4()]),
        ("kimi_k25", KIMI, [*kimi()]),
        ("minimax_m3_vl", MINIMAX, [*minimax()]),
    ],
)
def test_a_tower_has_the_parameters_of_its_tensors(
    model_type: str, vision: dict[str, object], tensors: list[Shape]
) -> None:
    tower = tower_of(Keys({"vision_config": vision}, "config"), model_type, TEXT)
    assert tower is not None
    assert (tower.layers, tower.hidden) == (LAYERS, H)
    assert tower.parameters == sum(map(prod, tensors))


def test_other_models_and_files_without_a_tower_have_none() -> None:
    assert tower_of(Keys({"vision_config": PIXTRAL}, "config"), "llama", TEXT) is None
    assert tower_of(Keys({}, "config"), "gemma3", TEXT) is None
