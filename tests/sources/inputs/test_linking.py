"""`link`: recordings of any kind, sorted by what they are."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import ConfigError, FormatError
from chakrakit.sources import inputs as linking
from chakrakit.sources import link
from chakrakit.sources.calls import Inspected
from chakrakit.sources.pytorch.linking import LinkOptions
from support.recorders import dump_of


def test_of_several_kinds_the_fullest_is_linked_and_the_others_are_named(recording, tmp_path):
    recording.op("a", 0, 5)
    recording.write(tmp_path)
    (tmp_path / "dump.json").write_text(json.dumps(dump_of(0, 4, 3, seed=0)))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".hidden").write_text("hello")
    _, report = link([tmp_path])
    assert report.ranks[0].host_ops.linked == 1
    assert report.ignored_files == {
        str(
            tmp_path / "dump.json"
        ): "flight recorder: link it apart from PyTorch's observer or Kineto",
        str(tmp_path / "notes.txt"): "not a recording of a known kind",
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("notes.txt", "hello", "no recording among the inputs"),
        ("f.txt", "HloModule jit_f\n\nENTRY main {\n}\n", "give the recording of a run too"),
    ],
)
def test_inputs_that_hold_no_recording_are_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=said):
        link([tmp_path])


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FormatError, match="does not exist") as error:
        link([tmp_path / "nowhere"])
    assert error.value.path == str(tmp_path / "nowhere")


def test_a_dump_s_rank_is_said_by_its_name(tmp_path):
    for rank in (2, 5):
        text = json.dumps(dump_of(rank, 8, 3, seed=0))
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(text)
    assert list(link([tmp_path])[0].ranks) == [2, 5]


def test_recordings_with_times_take_no_second_file_of_them(tmp_path):
    with pytest.raises(ConfigError, match="--times goes with PyTorch's observer files"):
        linking._linker(linking.RecordingKind.ROCPROF)(
            [linking.Recognised(tmp_path, linking.RecordingKind.ROCPROF)],
            {},
            LinkOptions(times=(tmp_path,)),
        )


@pytest.mark.parametrize(
    ("places", "ranks", "members"),
    [
        # Both are in the communicator of four: their places there are their ranks.
        (
            [{"big": (3, 4)}, {"big": (1, 4), "small": (0, 2)}],
            [3, 1],
            {"big": (1, 3), "small": (1,)},
        ),
        # No communicator holds both: they are counted.
        ([{"a": (0, 2)}, {"b": (0, 2)}], [0, 1], {"a": (0,), "b": (1,)}),
    ],
)
def test_ranks_of_inspected_processes_are_places_in_the_largest_communicator(
    places, ranks, members
):
    found = {f"file{i}": Inspected(places=said, calls=None) for i, said in enumerate(places)}
    told = linking._inspected_ranks(found)
    assert list(told.values()) == ranks
    assert linking._members(found, told) == members
