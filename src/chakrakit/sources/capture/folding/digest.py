"""Digest: whether two ranks run the same program, their own groups and peers aside."""

from __future__ import annotations

import hashlib

import msgspec

from chakrakit.sources.capture.folding.families import Families, Family
from chakrakit.sources.capture.recording import Comm, Recording
from chakrakit.sources.pytorch.communication import names as words


def relative_peer(comm: Comm, members: tuple[int, ...], position: int) -> int:
    """How far ahead in the group a message's peer is, around the end; a root by its place."""
    if comm.kind in (words.SEND, words.RECV) and members:
        return (comm.peer - position) % len(members)
    return comm.peer


def digest(recording: Recording, families: Families, step: int | None = None) -> str:
    """A hash of operators, modules, phases and communication, of one step or of all."""
    homes = families.of_recorded(recording.groups)
    hashed = hashlib.sha256()
    # Plain values say where in a tensor a rank's own part begins: they differ and change nothing.
    known = [
        msgspec.json.encode(msgspec.structs.replace(s, inputs_values=""))
        for s in recording.signatures
    ]
    for op in recording.ops:
        if step is not None and op.step != step:
            continue
        hashed.update(known[op.signature])
        hashed.update(f"{recording.modules[op.module]}|{op.phase}|{op.micro_batch}".encode())
        if op.comm >= 0:
            hashed.update(_said(recording.comms[op.comm], homes, recording.rank))
    hashed.update(str(recording.parameters).encode())
    return hashed.hexdigest()


def _said(comm: Comm, homes: dict[str, Family], rank: int) -> bytes:
    family = homes.get(comm.group)
    role = comm.group if family is None else family.role
    members = family.group_of(rank) if family is not None else ()
    position = family.position(rank) if family is not None else -1
    told = (
        role,
        relative_peer(comm, members, position),
        comm.kind,
        comm.in_bytes,
        comm.out_bytes,
        comm.dtype,
        comm.tag,
        comm.in_splits,
        comm.out_splits,
    )
    return msgspec.json.encode(told)
