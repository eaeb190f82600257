"""The schema under the protobuf runtime, in a descriptor pool of its own: the judge."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from support.paths import ROOT

PROTO = ROOT / "proto" / "et_def.proto"


@cache
def messages() -> dict[str, Any]:
    """Message classes by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "et.desc"
        protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", str(PROTO)])
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClassesForFiles([f.name for f in files.file], pool)


def message(name: str) -> Any:
    """`message("Node")` is the class."""
    return messages()[f"ChakraProtoMsg.{name}"]


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at this place, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def file_of(bodies: Iterable[bytes]) -> bytes:
    """A file of these messages, each with its length before it."""
    return b"".join(varint(len(b)) + b for b in bodies)


def bodies_of(data: bytes) -> Iterator[bytes]:
    """The messages of a file, as bytes."""
    position = 0
    while position < len(data):
        size, position = read_varint(data, position)
        yield data[position : position + size]
        position += size


def canonical(kind: str, body: bytes) -> bytes:
    """What the runtime writes for it: tells messages apart by NaN bits and unknown fields too."""
    found: bytes = message(kind).FromString(body).SerializeToString(deterministic=True)
    return found


def canonical_file(data: bytes) -> list[bytes]:
    """Every message of a file that starts with its metadata, as the runtime writes it."""
    kinds = ("GlobalMetadata" if i == 0 else "Node" for i, _ in enumerate(bodies_of(data)))
    return [canonical(kind, body) for kind, body in zip(kinds, bodies_of(data), strict=True)]
