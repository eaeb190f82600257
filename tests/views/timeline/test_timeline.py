"""Timelines parsed back: tracks serial or nested, arrows paired, times exact, names escaped."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

import chakrakit as ck
from chakrakit.cli import main
from chakrakit.trace.sets.run import Run, Times, run_of
from chakrakit.views.timeline.timeline import TimelineOptions, rank_timelines
from chakrakit.views.timeline.timeline_file import write_timeline
from support.paths import DATA
from support.recorded import linked

# The fields of Perfetto's trace format that are written, with their numbers.
PROTO = """
syntax = "proto2";
package test_perfetto;
message Trace { repeated TracePacket packet = 1; }
message TracePacket {
  optional uint64 timestamp = 8;
  optional uint32 trusted_packet_sequence_id = 10;
  optional TrackEvent track_event = 11;
  optional InternedData interned_data = 12;
  optional uint32 sequence_flags = 13;
  optional TrackDescriptor track_descriptor = 60;
}
message TrackEvent {
  enum Type { UNSPECIFIED = 0; SLICE_BEGIN = 1; SLICE_END = 2; INSTANT = 3; COUNTER = 4; }
  optional Type type = 9;
  optional uint64 name_iid = 10;
  optional uint64 track_uuid = 11;
  optional int64 counter_value = 30;
  repeated fixed64 flow_ids = 47;
  repeated fixed64 terminating_flow_ids = 48;
}
message InternedData { repeated EventName event_names = 2; }
message EventName { optional uint64 iid = 1; optional string name = 2; }
message TrackDescriptor {
  optional uint64 uuid = 1;
  optional string name = 2;
  optional uint64 parent_uuid = 5;
  optional CounterDescriptor counter = 8;
  optional int32 child_ordering = 11;
  optional int32 sibling_order_rank = 12;
}
message CounterDescriptor { optional int32 unit = 3; }
"""


@pytest.fixture(scope="session")
def trace_class(tmp_path_factory):
    """The message class, in a pool of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    folder = tmp_path_factory.mktemp("proto")
    (folder / "t.proto").write_text(PROTO)
    out = folder / "t.bin"
    assert (
        protoc.main(
            ["protoc", f"-I{folder}", f"--descriptor_set_out={out}", str(folder / "t.proto")]
        )
        == 0
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test_perfetto.Trace"))


class Parsed:
    """A Perfetto file: its tracks by path, and the slices of each in order."""

    def __init__(self, packets):
        self.names, self.tracks, self.parents = {}, {}, {}
        self.slices: dict[str, list] = defaultdict(list)
        self.counters: dict[str, list] = defaultdict(list)
        self.leaves, self.stops = defaultdict(list), defaultdict(list)
        open_: dict[int, list] = defaultdict(list)
        self.deepest: dict[str, int] = defaultdict(int)
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1
            for entry in packet.interned_data.event_names:
                assert entry.iid not in self.names
                self.names[entry.iid] = entry.name
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            if packet.HasField("track_event"):
                self._event(packet, open_)
        assert not any(open_.values()), "a slice was never ended"

    def _describe(self, track):
        above = self.tracks[track.parent_uuid] + " › " if track.parent_uuid else ""
        assert track.uuid not in self.tracks
        self.tracks[track.uuid] = above + track.name

    def _event(self, packet, open_):
        event, track = packet.track_event, self.tracks[packet.track_event.track_uuid]
        stack = open_[event.track_uuid]
        if event.type == 1:
            name = self.names[event.name_iid]
            stack.append((name, packet.timestamp))
            self.deepest[track] = max(self.deepest[track], len(stack))
            for number in event.flow_ids:
                self.leaves[number].append((packet.timestamp, track, name))
            for number in event.terminating_flow_ids:
                self.stops[number].append((packet.timestamp, track, name))
        elif event.type == 2:
            name, begin = stack.pop()
            assert begin <= packet.timestamp
            self.slices[track].append((name, begin, packet.timestamp))
        else:
            self.counters[track].append((packet.timestamp, event.counter_value))


@pytest.fixture
def perfetto(trace_class, tmp_path):
    def parse(run: Run, options: TimelineOptions | None = None) -> Parsed:
        found = write_timeline(run, tmp_path / "t.pftrace", options)
        packets = trace_class.FromString((tmp_path / "t.pftrace").read_bytes()).packet
        parsed = Parsed(packets)
        assert sum(map(len, parsed.slices.values())) == found.nodes
        assert len(parsed.stops) == found.edges
        return parsed

    return parse


@pytest.fixture
def chrome(tmp_path):
    def parse(run: Run, options: TimelineOptions | None = None) -> list[dict]:
        write_timeline(run, tmp_path / "t.json", options, chrome=True)
        return json.loads((tmp_path / "t.json").read_text())["traceEvents"]

    return parse


@pytest.fixture(scope="module")
def recorded() -> Run:
    return linked("cnn_ddp_2")


@pytest.fixture(scope="module")
def on_gpu() -> Run:
    folder = DATA / "pytorch" / "resnet50_b128"
    return ck.link(folder / "et.json.gz", folder / "kineto.json.gz").run


def small(names=("a", "b"), start=(0, 1_000_000_007), end=(5, 1_000_000_012)) -> Run:
    t = ck.TraceBuilder()
    for name in names:
        t.comp(name, stream=7)
    return run_of(
        ck.TraceSet([t.build()]), {0: Times(np.array(start), np.array(end))}, tick_ps=1000
    )


def test_a_slice_a_node_in_nanoseconds(perfetto):
    parsed = perfetto(small())
    assert parsed.slices == {
        "trace › rank 0 › device 0 stream 7": [("a", 0, 5), ("b", 1_000_000_007, 1_000_000_012)]
    }


def test_machines_group_ranks(perfetto, two_ranks):
    parsed = perfetto(two_ranks, TimelineOptions(node_size=1))
    assert "trace › node 1 › rank 1 › device 0 stream 20" in parsed.slices


def test_streams_are_serial_and_threads_nest(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    assert all(depth == 1 for track, depth in parsed.deepest.items() if "stream" in track)
    assert any(depth > 3 for track, depth in parsed.deepest.items() if "thread" in track)
    for track, slices in parsed.slices.items():
        if "stream" in track:
            assert all(a[2] <= b[1] for a, b in itertools.pairwise(slices))


def test_times_are_those_of_the_run(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    trace = on_gpu.trace(0)
    device = np.flatnonzero(~trace.column("is_cpu_op").astype(bool))
    told = sorted(
        (s[1], s[2]) for t, slices in parsed.slices.items() if "stream" in t for s in slices
    )
    assert told == sorted(
        zip(trace.start_ns[device].tolist(), trace.end_ns[device].tolist(), strict=True)
    )


def test_arrows_are_paired_and_go_forward(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    assert len(parsed.stops) > 900
    assert set(parsed.leaves) == set(parsed.stops)
    for number, ((stop, _, _),) in parsed.stops.items():
        assert all(time <= stop for time, _, _ in parsed.leaves[number])


def test_a_collective_is_one_arrow_through_its_ranks(perfetto, two_ranks):
    parsed = perfetto(two_ranks)
    through = [
        n for n, ends in parsed.stops.items() if ends[0][2] == "sum" and "rank 1" in ends[0][1]
    ]
    (number,) = [n for n in through if any("rank 0" in t for _, t, _ in parsed.leaves[n])]
    assert parsed.leaves[number] == [(10_000, "trace › rank 0 › device 0 stream 20", "sum")]
    assert parsed.stops[number] == [(30_000, "trace › rank 1 › device 0 stream 20", "sum")]


def test_without_arrows(perfetto, two_ranks):
    assert not perfetto(two_ranks, TimelineOptions(flows=False)).stops


def test_memory_is_a_counter(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    (track,) = parsed.counters
    assert track.endswith("rank 0 › memory")
    assert max(v for _, v in parsed.counters[track]) > 5 << 30


def test_what_overlaps_on_a_stream_gets_tracks_of_its_own(perfetto, chrome):
    run = small(("a", "b", "c"), (0, 5, 20), (10, 15, 30))
    parsed = perfetto(run)
    assert parsed.slices == {
        "trace › rank 0 › device 0 stream 7": [("a", 0, 10), ("c", 20, 30)],
        "trace › rank 0 › device 0 stream 7 (2)": [("b", 5, 15)],
    }
    assert {(e["name"], e["tid"]) for e in chrome(run) if e["ph"] == "X"} == {
        ("a", 0),
        ("b", 1),
        ("c", 0),
    }


def test_nodes_without_length_and_equal_times(perfetto):
    """Begin and end at one moment, one after another: none is lost, none swallows another."""
    parsed = perfetto(small(("a", "b", "c", "d"), (0, 5, 5, 5), (5, 5, 5, 9)))
    assert sorted(parsed.slices["trace › rank 0 › device 0 stream 7"]) == [
        ("a", 0, 5),
        ("b", 5, 5),
        ("c", 5, 5),
        ("d", 5, 9),
    ]


def test_chrome_times_are_microseconds_with_nanoseconds(chrome, tmp_path):
    events = [e for e in chrome(small()) if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in events] == [(0.0, 0.005), (1_000_000.007, 0.005)]
    assert '"ts":1000000.007,' in (tmp_path / "t.json").read_text()


def test_chrome_tracks_and_arrows(chrome, recorded):
    events = chrome(recorded)
    tracks = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            start = round(e["ts"] * 1000)
            tracks[e["pid"], e["tid"]].append((start, -(start + round(e["dur"] * 1000))))
    for slices in tracks.values():
        stack: list[int] = []
        for start, end in sorted(slices):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -end <= stack[-1], "slices overlap without nesting"
            stack.append(-end)
    arrows = defaultdict(list)
    for e in events:
        if e["ph"] in "stf":
            arrows[e["id"]].append(e)
    assert arrows
    for ends in arrows.values():
        phases = [e["ph"] for e in sorted(ends, key=lambda e: (e["ts"], "stf".index(e["ph"])))]
        assert (phases[0], phases[-1]) == ("s", "f")
        assert set(phases[1:-1]) <= {"t"}


@pytest.mark.parametrize(
    "name",
    ['</script><script>alert("x")</script>', 'a"b\\c\n\t\x01', "ü › 木", "\ud800"[:0] or "x"],
)
def test_any_name_survives(perfetto, chrome, name):
    run = small((name, "b"))
    assert perfetto(run).slices["trace › rank 0 › device 0 stream 7"][0][0] == name
    assert next(e for e in chrome(run) if e["ph"] == "X")["name"] == name


def test_the_command_chooses_by_name(two_ranks, tmp_path, capfd, trace_class):
    ck.write(two_ranks, tmp_path / "run")
    run = str(tmp_path / "run")
    main(["export", run, str(tmp_path / "a.pftrace.gz")], standalone_mode=False)
    main(["export", run, str(tmp_path / "b.json"), "--no-flows"], standalone_mode=False)
    main(["export", run, str(tmp_path / "c"), "--perfetto"], standalone_mode=False)
    assert "6 slices" in capfd.readouterr().err
    packed = gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes())
    assert packed == (tmp_path / "c").read_bytes()
    assert len(trace_class.FromString(packed).packet) > 12
    json.loads((tmp_path / "b.json").read_text())


def test_slices_are_small(on_gpu, tmp_path):
    """A slice with its arrows takes under 60 bytes; names are written once."""
    found = write_timeline(on_gpu, tmp_path / "t.pftrace", TimelineOptions(memory=False))
    assert (tmp_path / "t.pftrace").stat().st_size < 60 * found.nodes


def test_figures_over_time_become_counters(perfetto, chrome):
    """A figure over time of the run: one counter for each queue, on its own rank."""
    plain = small()
    table = pa.table(
        {
            "rank": [0, 0, 0, 1],
            "time_ns": [0, 10, 5, 0],
            "queue": ["up", "up", "down", "up"],
            "depth": [1, 7, 3, 9],
        }
    )
    run = Run(
        plain.bodies,
        plain.bindings,
        plain.groups,
        plain.card,
        times=plain.times,
        timing=plain.timing,
        counters={"queue_depth": table, "totals": pa.table({"rank": [0], "bytes": [1]})},
    )
    assert perfetto(run).counters == {
        "trace › rank 0 › queue depth up": [(0, 1), (10, 7)],
        "trace › rank 0 › queue depth down": [(5, 3)],
    }
    told = [(e["name"], e["ts"], e["args"]["items"]) for e in chrome(run) if e["ph"] == "C"]
    assert ("queue depth up", 0.01, 7) in told


def test_a_window_has_what_touches_it_and_only_whole_arrows(two_ranks):
    for window, rows, arrows in (
        ((0, 60_000), 6, 5),
        ((0, 20_000), 3, 1),
        ((51_000, 52_000), 2, 0),
    ):
        lines = list(rank_timelines(two_ranks, TimelineOptions(window=window)))
        assert sum(len(line.tracks.row) for line in lines) == rows
        ids = np.concatenate([line.flows.id for line in lines])
        begins = np.concatenate([line.flows.begins for line in lines])
        stops = np.concatenate([line.flows.stops for line in lines])
        assert len(np.unique(ids)) == arrows
        assert sorted(ids[begins]) == sorted(ids[stops]) == sorted(set(ids.tolist()))


def test_one_rank_is_drawn_for_many_that_do_the_same(chrome):
    """Of 66 ranks that run one program at the same times, one is drawn and says so."""
    t = ck.TraceBuilder()
    t.comp("gemm", duration_ns=10)
    t.send("s", 0, 1, 16, 0)
    t.recv("r", 1, 0, 16, 0)
    t.collective("c", ck.CollectiveType.ALL_REDUCE, 64)
    bindings = {r: ck.Binding(0, {}, {1: r ^ 1}) for r in range(66)}
    times = Times(np.array([0, 10, 10, 20]), np.array([10, 20, 20, 30]))
    run = Run([t.build()], bindings, times=[times], timing=dict.fromkeys(range(66), 0))
    named = [e["args"]["name"] for e in chrome(run) if e.get("name") == "process_name"]
    assert named == ["rank 0 (1 of 66 alike)"]
    every = chrome(run, TimelineOptions(every_rank=True))
    assert sum(e.get("name") == "process_name" for e in every) == 66
    assert not [e for e in chrome(run) if e["ph"] in "st"]  # no arrow from a rank to itself
