"""torch.accelerator answers as torch.cuda does."""

import torch

from chakrakit.sources.capture.observing import ProgramStreams, Storages
from chakrakit.sources.capture.standins import Cuda
from chakrakit.sources.capture.standins import cuda as accelerator


def test_it_names_the_devices_that_the_script_is_told_of(patches):
    device = Cuda(patches, Storages(), ProgramStreams(), "h100", 3, 8, memory=80 << 30)
    device.install()
    accelerator.install(patches)
    assert torch.accelerator.is_available()
    assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (8, 3)
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    patches.undo()
    assert torch.accelerator.is_available() is torch.cuda.is_available()
