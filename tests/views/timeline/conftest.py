"""Timelines written and parsed back."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.trace.sets import Run
from chakrakit.views import TimelineOptions, write_timeline
from support.paths import DATA
from support.recorded import linked
from support.timelines import PROTO, Parsed


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


@pytest.fixture
def perfetto(trace_class, tmp_path):
    def parse(run: Run, options: TimelineOptions | None = None) -> Parsed:
        exported = write_timeline(run, tmp_path / "t.pftrace", options)
        packets = trace_class.FromString((tmp_path / "t.pftrace").read_bytes()).packet
        parsed = Parsed(packets)
        assert sum(map(len, parsed.slices.values())) == exported.nodes
        assert len(parsed.stops) == exported.edges
        return parsed

    return parse


@pytest.fixture
def chrome(tmp_path):
    def parse(run: Run, options: TimelineOptions | None = None) -> list[dict]:
        write_timeline(run, tmp_path / "t.json", options, chrome=True)
        return json.loads((tmp_path / "t.json").read_text())["traceEvents"]

    return parse


@pytest.fixture(scope="session")
def recorded() -> Run:
    return linked("cnn_ddp_2")


@pytest.fixture(scope="session")
def on_gpu() -> Run:
    folder = DATA / "pytorch" / "resnet50_b128"
    return ck.link(folder / "et.json.gz", folder / "kineto.json.gz").run
