"""A training step of ResNet-50 in bf16 by autocast: 128 images of 224 x 224, channels last, SGD."""

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH, SIZE, CLASSES = 128, 224, 1000


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(inputs, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = _convolution(inner, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = _convolution(inner, 4 * inner, 1), nn.BatchNorm2d(4 * inner)
        self.relu = nn.ReLU(inplace=True)
        shortcut = (_convolution(inputs, 4 * inner, 1, stride), nn.BatchNorm2d(4 * inner))
        self.shortcut = nn.Sequential(*(shortcut if inputs != 4 * inner else ()))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        out += self.shortcut(x)
        return self.relu(out)


def resnet50() -> nn.Sequential:
    """All stages."""
    layers: list[nn.Module] = [_convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for inner, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, inner, stride if i == 0 else 1))
            inputs = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def main() -> None:
    device = torch.device("cuda")
    model = resnet50().to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,), device=device)
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
