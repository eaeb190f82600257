"""Contributions carried through the steps of a collective, so that none is lost or added twice."""

import numpy as np

from chakrakit.simulator.collectives import CollectiveSteps, TransferStep


def pieces_of(step: TransferStep, i: int, k: int) -> list[int]:
    base = int(np.broadcast_to(step.base, step.src.shape)[i])
    first = int(step.first[i]) + k * step.shift
    return [base + (first + j) % step.modulus for j in range(int(step.count[i]))]


def merge(state: dict, member: int, piece: int, value: frozenset, reduce: bool) -> None:
    """A reduction never adds the same contribution twice; a copy never loses one."""
    have = state.setdefault((member, piece), frozenset())
    if reduce:
        assert not have & value, f"member {member} adds a part of piece {piece} twice"
        state[member, piece] = have | value
    else:
        assert have <= value, f"member {member} loses a part of piece {piece}"
        state[member, piece] = value


def carry(moves: CollectiveSteps, state: dict) -> dict:
    """Runs the schedule on sets of contributions: transfers of a step see what was there before it."""
    done: set[int] = set()
    for number, step in enumerate(moves.steps):
        assert set(moves.after(number)) <= done or step.joined
        for k in range(step.repeat):
            sent = [
                (int(dst), p, state[int(src), p])
                for i, (src, dst) in enumerate(zip(step.src, step.dst, strict=True))
                for p in pieces_of(step, i, k)
            ]
            for dst, piece, value in sent:
                merge(state, dst, piece, value, step.reduce)
        done.add(number)
    return state


def contributions(moves: CollectiveSteps) -> dict:
    return {(m, p): frozenset([m]) for m in range(moves.n) for p in range(moves.pieces)}


def owned_pieces(moves: CollectiveSteps) -> list[tuple[int, int]]:
    """Members and the pieces that they own: one, or several side by side."""
    share = range(moves.pieces // moves.n)
    return [(m, int(first) + k) for m, first in enumerate(moves.owned) for k in share]


def owned_only(moves: CollectiveSteps) -> dict:
    return {(m, p): frozenset([m]) for m, p in owned_pieces(moves)}
