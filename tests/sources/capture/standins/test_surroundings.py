"""What a script does besides computing."""

from __future__ import annotations

import socket

import pytest
import torch
from torch.utils.data import DataLoader

from chakrakit.errors import ConfigError
from chakrakit.sources.capture.observing import RealValues
from chakrakit.sources.capture.standins import Mail, saved_files, surroundings


@pytest.fixture(autouse=True)
def installed(patches):
    surroundings.install(patches, rank=5, real_values=RealValues(patches))


def test_what_is_saved_is_not_written_and_can_be_loaded(tmp_path, patches):
    mail = Mail({})
    saved_files.install(patches, mail, RealValues(patches))
    path = tmp_path / "model.pt"
    torch.save({"a": 1, "weights": [torch.zeros(2, 3)]}, path)
    assert list(tmp_path.iterdir()) == []
    assert list(patches.stubbed) == ["torch.save"]
    loaded = torch.load(path)
    assert (loaded["a"], loaded["weights"][0].shape) == (1, (2, 3))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "another.pt")


def test_data_is_loaded_in_this_process_with_real_numbers(patches, fake):
    data = torch.utils.data.TensorDataset(torch.zeros(4))
    loader = DataLoader(data, batch_size=2, num_workers=3, pin_memory=True, prefetch_factor=2)
    assert (loader.num_workers, loader.pin_memory, len(list(loader))) == (0, False, 2)
    assert list(patches.stubbed) == ["torch.utils.data.DataLoader: worker processes"]


@pytest.mark.parametrize(
    ("connect", "host"),
    [
        (lambda: socket.getaddrinfo("example.com", 80), "example.com"),
        (lambda: socket.socket().connect(("192.0.2.1", 80)), "192.0.2.1:80"),
    ],
)
def test_a_connection_is_refused_with_the_line_that_wants_it(connect, host):
    with pytest.raises(
        ConfigError, match=rf"test_surroundings.py:\d+: the script connects to {host}"
    ):
        connect()


def test_names_of_this_machine_are_looked_up():
    assert socket.getaddrinfo("localhost", 80)


def test_a_script_that_starts_its_ranks_goes_on_as_the_one_captured(patches):
    seen = []
    torch.multiprocessing.spawn(lambda *args: seen.append(args), args=("x",), nprocs=4)
    assert seen == [(1, "x")]  # rank 5 is the second of four on its host
    assert list(patches.stubbed) == [
        "torch.multiprocessing.spawn: this rank's process alone, in place"
    ]


def test_threads_that_a_script_asks_for_are_answered_and_not_used(patches):
    """A forked process has none but its own."""
    torch.set_num_threads(7)
    answered = torch.get_num_threads()
    patches.undo()
    assert (answered, torch.get_num_threads() != 7) == (7, True)
