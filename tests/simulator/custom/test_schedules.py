"""Custom algorithms from ETs and MSCCL XML."""

import pytest

import chakrakit as ck
from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import FormatError, TraceError
from chakrakit.simulator.custom import custom_for, moves_from_msccl, moves_from_traces
from support.simulated import collective, machine_of, seconds


def ring_traces(n, piece, work_ns=0):
    """Member i passes a piece on n-1 times, reducing in between."""
    bodies = []
    for i in range(n):
        t, last = TraceBuilder(), []
        for k in range(n - 1):
            t.send("s", i, (i + 1) % n, piece, tag=k, deps=last)
            got = t.recv("r", (i - 1) % n, i, piece, tag=k, deps=[])
            last = [t.comp("add", duration_ns=work_ns, deps=[got])] if work_ns else [got]
        bodies.append(t.build())
    return TraceSet(bodies)


def test_an_et_algorithm_takes_its_messages_and_its_work():
    n, size = 4, 4 * 10**9
    moves = moves_from_traces(ring_traces(n, size / n, work_ns=7000), size)
    took = seconds(
        collective(CollectiveType.REDUCE_SCATTER, size, n),
        machine_of("full", n),
        custom=custom_for("reduce-scatter", moves),
    )
    assert took == pytest.approx(3 * (1e-6 + 1e9 / 10e9) + 2 * 7e-6, rel=1e-9)


def test_an_et_algorithm_scales_with_the_size():
    n = 4
    moves = moves_from_traces(ring_traces(n, 250), 1000)
    took = seconds(
        collective(CollectiveType.REDUCE_SCATTER, 10**9, n),
        machine_of("full", n),
        custom=custom_for("reduce-scatter", moves),
    )
    assert took == pytest.approx(3 * (1e-6 + 0.25e9 / 10e9), rel=1e-9)


MSCCL_RING = """<algo name="ring_ag" nchunksperloop="3" ngpus="3" coll="allgather">
{gpus}
</algo>"""


def msccl_ring(n=3):
    gpus = []
    for g in range(n):
        steps = [f'<step s="0" type="s" srcoff="{g}" cnt="1" depid="-1"/>']
        steps += [
            f'<step s="{k}" type="rcs" srcoff="{(g - k) % n}" cnt="1" depid="-1"/>'
            for k in range(1, n - 1)
        ]
        steps.append(f'<step s="{n - 1}" type="r" srcoff="{(g + 1) % n}" cnt="1" depid="-1"/>')
        gpus.append(
            f'<gpu id="{g}"><tb id="0" send="{(g + 1) % n}" recv="{(g - 1) % n}" chan="0">'
            + "".join(steps)
            + "</tb></gpu>"
        )
    return MSCCL_RING.format(gpus="\n".join(gpus))


def test_msccl_ring(tmp_path):
    file = tmp_path / "ring.xml"
    file.write_text(msccl_ring())
    moves = moves_from_msccl(file)
    assert moves.n == 3
    assert len(moves.steps) == 6
    took = seconds(
        collective(CollectiveType.ALL_GATHER, 10**9, 3),
        machine_of("full", 3),
        custom=custom_for("all-gather", moves),
    )
    assert took == pytest.approx(2 * (1e-6 + 0.1), rel=1e-9)


ONE_STEP = (
    '<algo ngpus="2"><gpu id="0"><tb id="0" send="{to}" recv="-1" chan="0"><step s="0" type="{kind}"/></tb>'
    '</gpu><gpu id="1"/></algo>'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<algo", "not MSCCL XML"),
        ("<x/>", "no <algo>"),
        (ONE_STEP.format(to=1, kind="s"), "receives 0 times"),
        (ONE_STEP.format(to=0, kind="zz"), "not known"),
        ('<algo ngpus="65536"><gpu id="0"/></algo>', "ngpus is 65,536, and 1 are listed"),
    ],
)
def test_broken_xml_is_refused(tmp_path, text, said):
    file = tmp_path / "x.xml"
    file.write_text(text)
    with pytest.raises(FormatError, match=said):
        moves_from_msccl(file)


def test_an_algorithm_without_messages_is_refused(tmp_path):
    (tmp_path / "x.xml").write_text('<algo name="none"><gpu id="0"/><gpu id="1"/></algo>')
    with pytest.raises(TraceError, match="'none': no member sends"):
        moves_from_msccl(tmp_path / "x.xml")


@pytest.mark.parametrize("preset", ["dgx-h100", "dgx-b200", "l40s-pcie"])
@pytest.mark.parametrize("size", [1 << 12, 1 << 18, 1 << 25])
def test_a_ring_written_by_hand_costs_what_the_library_s_does(tmp_path, preset, size):
    file = tmp_path / "ring.xml"
    file.write_text(msccl_ring(8).replace('loop="3" ngpus="3"', 'loop="8" ngpus="8"'))
    t = ck.TraceBuilder()
    t.collective("gather", ck.CollectiveType.ALL_GATHER, size)
    traces = ck.TraceSet([t.build()] * 8)
    own, ring = (
        ck.simulate(traces, preset, algorithms={"all-gather": name}).makespan_ns
        for name in (file, "ring")
    )
    assert own == pytest.approx(ring, rel=1e-3)
