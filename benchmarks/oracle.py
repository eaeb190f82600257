"""The schema under the protobuf runtime, in a descriptor pool of its own: what we are measured against."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

PROTO = Path(__file__).parent.parent / "proto" / "et_def.proto"


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
