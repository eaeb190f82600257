"""Published networks by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chakrakit.errors import ConfigError, nearest
from chakrakit.workloads.spatial.windows import Network, Window


def vgg16(image: int = 224) -> Network:
    """VGG16 (configuration D of Simonyan and Zisserman 2014): 13 convolutions and three linear layers."""
    layers = []
    for stage, (width, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        layers += [Window(f"conv{stage}.{i}", channels=width, bias=True) for i in range(count)]
        layers.append(Window(f"pool{stage}", "pool", window=2, stride=2))
    dense = [Window(f"fc{i}", "dense", n, bias=True) for i, n in enumerate((4096, 4096, 1000))]
    return Network("vgg16", (image, image), 3, [*layers, *dense])


def mobilenet_v2(image: int = 224) -> Network:
    """MobileNetV2 (Sandler et al. 2018, width 1): inverted residuals of thin and wide convolutions."""
    layers = [Window("stem", channels=32, stride=2, norm=True)]
    width = 32
    table = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
    )
    for stage, (factor, out, count, stride) in enumerate((*table, (6, 320, 1, 1))):
        for i in range(count):
            step = stride if i == 0 else 1
            layers += _inverted(f"block{stage}.{i}", width, out, factor, step)
            width = out
    layers += [
        Window("last", channels=1280, window=1, norm=True),
        Window("pool", "pool", whole=True),
    ]
    return Network(
        "mobilenet-v2", (image, image), 3, [*layers, Window("fc", "dense", 1000, bias=True)]
    )


def _inverted(name: str, width: int, out: int, factor: int, stride: int) -> Iterator[Window]:
    """Widened, filtered channel by channel, and made narrow again; added where nothing changes its size."""
    if factor > 1:
        yield Window(f"{name}.wide", channels=width * factor, window=1, norm=True)
    yield Window(f"{name}.depth", stride=stride, groups=0, norm=True)
    adds = (3 if factor > 1 else 2) if stride == 1 and width == out else 0
    yield Window(f"{name}.narrow", channels=out, window=1, norm=True, adds=adds)


def grid_attention(image: int = 224, width: int = 96, layers: int = 4, window: int = 7) -> Network:
    """Local attention on a grid, as neural surrogates of physics have it: every point sees a window."""
    stack = [Window(f"attention{i}", "attention", window=window) for i in range(layers)]
    return Network("grid-attention", (image, image), width, stack)


def convolutions(image: int = 512, width: int = 64, layers: int = 8, window: int = 3) -> Network:
    """Convolutions of one width on a grid, as solvers and surrogates have them."""
    first = Window("lift", channels=width, window=1)
    stack = [Window(f"conv{i}", window=window) for i in range(layers)]
    return Network("convolutions", (image, image), 4, [first, *stack])


NETWORKS: dict[str, Callable[..., Network]] = {
    "vgg16": vgg16,
    "mobilenet-v2": mobilenet_v2,
    "grid-attention": grid_attention,
    "convolutions": convolutions,
}


def network_named(name: str, image: int = 0) -> Network:
    """A network by its name, on images of a size."""
    if name not in NETWORKS:
        raise ConfigError(f"no network {name!r}; {nearest(name, NETWORKS)}")
    return NETWORKS[name](image) if image else NETWORKS[name]()
