"""What shows that tensors are fake: the class that libraries test for, and addresses.

Libraries take other paths for tensors that they take to be traced (transformers writes out its causal masks),
so a capture that is noticed is not a capture of the program.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from chakrakit.sources.capture.recording import Patches, in_pytorch


class _Shown(type):
    """The class of a class that only PyTorch's own code finds instances of."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, FakeTensor) and in_pytorch(sys._getframe(1))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, FakeTensor) and in_pytorch(sys._getframe(1))


class _Unfound(metaclass=_Shown):
    pass


def install(patches: Patches) -> None:
    """Hide fake tensors from whoever looks for them by class or address."""
    patches.set(torch._subclasses, "FakeTensor", _Unfound)
    patches.set(FakeTensor, "data_ptr", _address)
    patches.wrap(torch.UntypedStorage, "data_ptr", _storage_address)


def _address(tensor: torch.Tensor) -> int:
    """A number that only tensors with the same beginning in the same storage share."""
    if not tensor.numel():
        return 0
    return int(tensor.untyped_storage()._cdata + tensor.storage_offset() * tensor.element_size())


def _storage_address(plain: Any) -> Any:
    def data_ptr(storage: Any) -> int:
        fake = storage.device.type == "meta" and storage.nbytes() > 0
        return int(storage._cdata if fake else plain(storage))

    return data_ptr
