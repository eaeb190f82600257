"""A Perfetto file read back with a schema of its own, and a small run to draw."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

import chakrakit as ck
from chakrakit.trace.sets import Run, Times, run_of

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


def small(names=("a", "b"), start=(0, 1_000_000_007), end=(5, 1_000_000_012)) -> Run:
    t = ck.TraceBuilder()
    for name in names:
        t.comp(name, stream=7)
    return run_of(
        ck.TraceSet([t.build()]), {0: Times(np.array(start), np.array(end))}, tick_ps=1000
    )
