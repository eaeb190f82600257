"""Kernels in the place of others, on a small program of one optimizer that updates tensors one by one."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.passes import Ahead, ChannelsLast, FusedAttention, FusedOptimizer, Graphed, Unsync
from chakrakit.passes.fused import unfused_attention
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import TraceSet

TENSORS = 4
SHAPE = [4096, 4096]


def looped() -> TraceSet:
    """`Optimizer.step` of 1 ms around four updates of 100 µs each, each with a kernel of 400 µs."""
    names = ["Optimizer.step#AdamW.step", *["aten::addcdiv_"] * TENSORS, *["update"] * TENSORS]
    host = [True] * (1 + TENSORS) + [False] * TENSORS
    starts = [0, *(10_000 + 200_000 * i for i in range(TENSORS))]
    starts += [20_000 + 400_000 * i for i in range(TENSORS)]
    durations = [1_000_000, *[100_000] * TENSORS, *[400_000] * TENSORS]
    own = [600_000, *durations[1:]]
    tensors = [json.dumps([SHAPE] * 3 + [[]])] * TENSORS
    kinds = [json.dumps(["Tensor(float)"] * 3 + ["Double"])] * TENSORS
    trace = Trace.from_columns(
        {
            "id": list(range(1, 1 + len(names))),
            "name": names,
            "type": [int(NodeType.COMP_NODE)] * len(names),
            "is_cpu_op": host,
            "start_time_ns": starts,
            "duration_ns": durations,
            "own_ns": own,
            "inputs_shapes": ["", *tensors, *[""] * TENSORS],
            "inputs_types": ["", *kinds, *[""] * TENSORS],
            "parent": [None, *[1] * TENSORS, *[None] * TENSORS],
            "stream": [0] * (1 + TENSORS) + [7] * TENSORS,
        },
        edges=_edges(),
    )
    return TraceSet([trace], {0: Binding(0)})


def _edges() -> Edges:
    calls = list(range(1, 1 + TENSORS))
    kernels = list(range(1 + TENSORS, 1 + 2 * TENSORS))
    launch = Edges.of(calls, kernels, EdgeKind.LAUNCH)
    stream = Edges.of(kernels[:-1], kernels[1:], EdgeKind.STREAM)
    thread = Edges.of([0, *calls[:-1]], calls, EdgeKind.THREAD)
    return Edges.concat([launch, stream, thread])


def test_one_kernel_updates_all_tensors() -> None:
    """67 million float32 parameters, of which a fused Adam moves seven tensors, at most of 4.8 TB/s."""
    fused = looped() | FusedOptimizer("dgx-h200", host_us=200)
    body = fused.body_at(0)
    kernels = body.own_ns[-TENSORS:]
    least_ns = 7 * 4 * TENSORS * SHAPE[0] * SHAPE[1] / 4.8e12 * 1e9
    assert (kernels[1:] == 0).all()
    assert least_ns < kernels[0] < 2 * least_ns
    assert body.own_ns[0] == 200_000
    assert (body.own_ns[1 : 1 + TENSORS] == 0).all()
    slower = looped() | FusedOptimizer("dgx-h200", slower=2)
    assert slower.body_at(0).own_ns[-TENSORS] == pytest.approx(2 * kernels[0], abs=1)


def test_what_a_kernel_takes_must_be_known() -> None:
    with pytest.raises(TraceError, match="give machine=NAME"):
        looped() | FusedOptimizer()


def test_kernels_of_a_graph_wait_for_nobody_but_each_other() -> None:
    body = (looped() | Graphed(gap_us=2)).body_at(0)
    assert (body.own_ns[: 1 + TENSORS] == 0).all()
    assert (body.own_ns[-TENSORS:] == 400_000).all()
    assert set(body.edges.lag[body.edges.kind == EdgeKind.STREAM].tolist()) == {2_000}
    done = ck.simulate(looped() | Graphed(gap_us=2), compute="measured", communication="measured")
    assert done.makespan_ns == TENSORS * 400_000 + (TENSORS - 1) * 2_000


def test_programs_without_what_is_replaced_are_refused() -> None:
    with pytest.raises(TraceError, match="no call of aten::_scaled_dot_product_attention_math"):
        looped() | FusedAttention("dgx-h200")
    alone = ck.generate(model="gpt3-125m", layers=1, seq=128).traces
    with pytest.raises(TraceError, match="no kernel is launched"):
        alone | Graphed()
    with pytest.raises(TraceError, match="no optimizer launches"):
        alone | FusedOptimizer("dgx-h200")


@pytest.mark.parametrize("damaged", ["[[8,", "7", "[[1e999]]", "[" * 5_000])
def test_arguments_that_cannot_be_read_are_an_error_on_purpose(damaged: str) -> None:
    """Anybody may have written a recording, and `analyze` tries the pass on every one."""
    [body] = looped().bodies
    shapes = ["", *[damaged] * TENSORS, *[""] * TENSORS]
    traces = TraceSet([body.with_columns({"inputs_shapes": shapes})], {0: Binding(0)})
    with pytest.raises(TraceError, match="has no fused kernel here"):
        (traces | FusedOptimizer("dgx-h200")).body_at(0)


def _attention(scores: list[int], masks: list[str] | None = None) -> TraceSet:
    """Products of 16 × 64 × 32 around a softmax over `scores`, each with a kernel of 1 ms, by hand."""
    groups, rows, columns, head = 16, 64, 64, 32
    shapes = {
        "aten::bmm": [[[groups, rows, head], [groups, head, columns]]],
        "aten::masked_fill": [[scores, [rows, columns], []]],
        "aten::_softmax": [[scores, [], []]],
        "aten::bmm second": [[[groups, rows, columns], [groups, columns, head]]],
    }
    names = ["aten::bmm", *(masks or []), "aten::_softmax", "aten::bmm second"]
    count = len(names)
    texts = [json.dumps(shapes[name][0]) for name in names]
    kinds = [json.dumps(["c10::BFloat16"] * 2 + ["Scalar"]) for _ in names]
    trace = Trace.from_columns(
        {
            "id": list(range(1, 1 + 2 * count)),
            "name": [*(n.removesuffix(" second") for n in names), *["kernel"] * count],
            "type": [int(NodeType.COMP_NODE)] * 2 * count,
            "is_cpu_op": [True] * count + [False] * count,
            "start_time_ns": [
                *(10_000 * i for i in range(count)),
                *(10_000 + 10**6 * i for i in range(count)),
            ],
            "duration_ns": [5_000] * count + [10**6] * count,
            "inputs_shapes": [*texts, *[""] * count],
            "inputs_types": [*kinds, *[""] * count],
            "stream": [0] * count + [7] * count,
        },
        edges=Edges.of(list(range(count)), list(range(count, 2 * count)), EdgeKind.LAUNCH),
    )
    return TraceSet([trace], {0: Binding(0)})


@pytest.mark.parametrize(
    ("scores", "heads"), [([2, 8, 64, 64], (2, 8)), ([16, 64, 64], (1, 16))], ids=["four", "three"]
)
def test_products_around_a_softmax_are_attention(scores: list[int], heads: tuple[int, int]) -> None:
    [call] = unfused_attention(_attention(scores).body_at(0))
    assert call.query.shape == (*heads, 64, 32)
    assert (call.causal, call.masked) == (False, False)
    assert call.rows.tolist() == list(range(6))
    fused = _attention(scores) | FusedAttention("dgx-h200")
    before, after = (t.body_at(0).own_ns[3:].sum() for t in (_attention(scores), fused))
    assert before == 3_000_000
    assert 0 < after < 100_000


def test_a_mask_of_positions_alone_hides_later_tokens() -> None:
    [call] = unfused_attention(_attention([2, 8, 64, 64], ["aten::masked_fill"]).body_at(0))
    assert call.causal


def test_a_softmax_of_other_scores_is_no_attention() -> None:
    """A router's softmax lies between products as well."""
    assert not unfused_attention(_attention([1024, 8]).body_at(0))
    assert not unfused_attention(_attention([2, 8, 64, 8]).body_at(0))


def test_a_product_of_another_thread_is_no_part_of_attention() -> None:
    trace = _attention([16, 64, 64]).body_at(0)
    apart = trace.with_columns({"tid": [1, 2, 3, None, None, None]})
    assert len(unfused_attention(trace)) == 1
    assert not unfused_attention(apart)


def _step(names: list[str], host: list[bool], **columns: list[object]) -> Trace:
    """Rows of the host 100 µs apart and kernels 1 ms apart, each launched by the row of its place."""
    count = sum(host)
    kernels = len(names) - count
    return Trace.from_columns(
        {
            "id": list(range(1, 1 + len(names))),
            "name": names,
            "type": [int(NodeType.COMP_NODE)] * len(names),
            "is_cpu_op": host,
            "start_time_ns": [
                *(100_000 * i for i in range(count)),
                *(10**6 * (1 + i) for i in range(kernels)),
            ],
            "duration_ns": [100_000] * count + [10**6] * kernels,
            "stream": [0] * count + [7] * kernels,
            **columns,
        },
        edges=Edges.concat(
            [
                Edges.of(
                    list(range(kernels)), list(range(count, count + kernels)), EdgeKind.LAUNCH
                ),
                Edges.of(list(range(count - 1)), list(range(1, count)), EdgeKind.THREAD),
            ]
        ),
    )


def _set(trace: Trace) -> TraceSet:
    return TraceSet([trace], {0: Binding(0)})


def test_images_whose_channels_lie_apart_take_what_others_take() -> None:
    """A convolution of 128 × 64 × 56² by 3 × 3: channels last it needs less than half of its time."""
    image, weight = [128, 64, 56, 56], [64, 64, 3, 3]
    apart = [[64 * 56 * 56, 56 * 56, 56, 1], [576, 9, 3, 1]]
    arguments = [[1, 1], [1, 1], [1, 1], 1, False, False, True]
    trace = _step(
        ["aten::cudnn_convolution", "nchw kernel"],
        [True, False],
        inputs_shapes=[json.dumps([image, weight]), ""],
        inputs_types=[json.dumps(["c10::BFloat16"] * 2), ""],
        inputs_strides=[json.dumps(apart), ""],
        inputs_values=[json.dumps([[], [], *arguments]), ""],
    )
    after = _set(trace) | ChannelsLast("dgx-h200")
    assert 0.2e6 < after.body_at(0).own_ns[1] < 0.9e6
    with pytest.raises(TraceError, match="channels lie apart"):
        _ = looped() | ChannelsLast("dgx-h200")


def test_kernels_that_convert_images_go_and_the_others_keep_their_time() -> None:
    """One of 0.3 ms puts channels together for a convolution of float32 images; its own kernel takes 1 ms."""
    trace = Trace.from_columns(
        {
            "id": [1, 2, 3],
            "name": ["aten::cudnn_convolution", "cudnn::nchwToNhwcKernel<float>", "xmma_nhwc"],
            "type": [int(NodeType.COMP_NODE)] * 3,
            "is_cpu_op": [True, False, False],
            "start_time_ns": [0, 10_000, 310_000],
            "duration_ns": [10_000, 300_000, 1_000_000],
            "own_ns": [10_000, 300_000, 1_000_000],
            "inputs_shapes": [json.dumps([[128, 64, 56, 56], [64, 64, 3, 3]]), "", ""],
            "inputs_types": [json.dumps(["float"] * 2), "", ""],
            "inputs_strides": [json.dumps([[200704, 3136, 56, 1], [576, 9, 3, 1]]), "", ""],
            "stream": [0, 7, 7],
        },
        edges=Edges.of([0, 0], [1, 2], EdgeKind.LAUNCH),
    )
    after = _set(trace) | ChannelsLast("dgx-h200")
    assert after.body_at(0).own_ns.tolist() == [10_000, 0, 1_000_000]


@pytest.mark.parametrize(
    ("change", "own_ns"),
    [
        (Ahead("loading", host_us=60), [60_000, 0, 100_000, 10**6]),
        (Graphed(), [100_000, 100_000, 0, 10**6]),
    ],
    ids=["other processes load them", "a graph does not"],
)
def test_the_host_s_time_for_batches(change: Ahead | Graphed, own_ns: list[int]) -> None:
    names = [
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "aten::rand",
        "aten::mm",
        "mm",
    ]
    trace = _step(names, [True, True, True, False], parent=[None, 1, None, None])
    assert (_set(trace) | change).body_at(0).own_ns.tolist() == own_ns


def test_without_batches_that_are_loaded_there_is_nothing_to_load_ahead() -> None:
    with pytest.raises(TraceError, match="no batch is loaded"):
        _ = looped() | Ahead("loading")


def test_nothing_waits_for_copies_that_are_made_ahead() -> None:
    names = ["cudaMemcpyAsync", "cudaLaunchKernel", "cudaStreamSynchronize"]
    trace = _step([*names, "Memcpy HtoD (Pageable -> Device)", "mm"], [True] * 3 + [False] * 2)
    wait = Edges.of([3], [2], EdgeKind.SYNC)
    stream = Edges.of([3], [4], EdgeKind.STREAM)
    trace = trace.with_edges(Edges.concat([trace.edges, wait, stream]))
    after = (_set(trace) | Ahead("copies")).body_at(0)
    assert after.own_ns.tolist() == [100_000, 100_000, 100_000, 0, 10**6]
    assert not (after.edges.kind == EdgeKind.SYNC).any()


def test_questions_that_are_not_asked_take_no_time() -> None:
    names = ["aten::item", "aten::_local_scalar_dense", "cudaStreamSynchronize", "aten::mm", "mm"]
    trace = _step(names, [True] * 4 + [False], parent=[None, 1, 2, None, None])
    trace = trace.with_edges(Edges.concat([trace.edges, Edges.of([4], [2], EdgeKind.SYNC)]))
    names_that_wait = ("cudaStreamSynchronize",)
    own = (_set(trace) | Unsync(names_that_wait, unasked=True)).body_at(0).own_ns
    assert own.tolist() == [0, 0, 0, 100_000, 0]
    own = (_set(trace) | Unsync(names_that_wait)).body_at(0).own_ns
    assert own.tolist() == [100_000] * 4 + [10**6]
