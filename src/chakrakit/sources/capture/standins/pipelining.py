"""torch.distributed.pipelining without neighbours: stages learn shapes from captures made before.

A stage's input looks like the output of the stage before it. Where that one was not captured yet
(interleaved stages), the nearest earlier stage stands for it. Gradients look like what they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import _utils, schedules, stage

from chakrakit.sources.capture.observing import Recorder, Whereabouts
from chakrakit.sources.capture.recording import NeedsValue, Patches, script_line
from chakrakit.sources.capture.standins.distributed import Mail

_STAGE = "output of stage "


def install(patches: Patches, mail: Mail, recorder: Recorder, where: Whereabouts) -> None:
    """Replace the exchange of metadata, and follow micro-batches."""
    if hasattr(_utils, "_StageForwardMeta"):
        _install_metadata(patches, mail)
    else:  # PyTorch before 2.12 sends its shapes as objects
        patches.wrap(stage.PipelineStage, "_shape_inference", _by_objects(mail, patches))
    patches.wrap(schedules._PipelineSchedule, "_initialize_pp_stages", _unrecorded(recorder))
    patches.wrap(stage._PipelineStageBase, "_prepare_forward_infra", _unrecorded(recorder))
    for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"):
        patches.wrap(stage._PipelineStageBase, name, _numbered(where))


def _install_metadata(patches: Patches, mail: Mail) -> None:
    def send(self: Any, meta: Any, dst_stage: int) -> None:
        if isinstance(meta, _utils._StageForwardMeta):
            mail.put(f"{_STAGE}{self.stage_index}", meta)

    def receive(self: Any, src_stage: int) -> Any:
        if src_stage > self.stage_index:
            gradients = _utils._derive_grad_metas(self._stage_meta.outputs)
            return _utils._StageBackwardMeta(backward_metas=gradients)
        return _meta_before(self.stage_index, src_stage, mail, patches)

    def warm_up(self: Any, stages: Any, has_backward: bool, p2p_done: bool) -> None:
        for pipeline_stage in stages:
            dynamic = stage.InferenceMode.needs_dynamic(pipeline_stage._user_meta, has_backward)
            pipeline_stage._inference_mode = (
                stage.InferenceMode.DYNAMIC if dynamic else stage.InferenceMode.STATIC
            )

    patches.set(stage.PipelineStage, "_send_meta", send)
    patches.set(stage.PipelineStage, "_recv_meta", receive)
    patches.set(schedules._PipelineSchedule, "_warmup_p2p", warm_up)


def _by_objects(mail: Mail, patches: Patches) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Stages that learn shapes from objects that the stage before sends."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def infer(self: Any, args: Any, kwargs: Any = None) -> Any:
            def send(objects: list[Any], *_: Any, **__: Any) -> None:
                forms = [(tuple(t.shape), t.stride(), t.dtype) for t in objects[0]]
                mail.put(f"{_STAGE}{self.stage_index}", forms)

            def receive(objects: list[Any], *_: Any, **__: Any) -> None:
                forms = _meta_before(self.stage_index, self.stage_index - 1, mail, patches)
                objects[0] = tuple(
                    torch.empty_strided(*f[:2], dtype=f[2], device="meta") for f in forms
                )

            during = Patches()
            during.set(dist, "send_object_list", send)
            during.set(dist, "recv_object_list", receive)
            try:
                return plain(self, args, kwargs)
            finally:
                during.undo()

        return infer

    return make


def _meta_before(stage: int, before: int, mail: Mail, patches: Patches) -> Any:
    """Metadata of the output of stage `before`, or else of the nearest earlier stage that was captured."""
    captured_stages = [int(n.removeprefix(_STAGE)) for n in mail.names() if n.startswith(_STAGE)]
    best = max((n for n in captured_stages if n <= before), default=None)
    if best is None:
        raise NeedsValue(
            f"{script_line()}: nothing is known of what stage {before} gives to stage "
            f"{stage}; give PipelineStage its input_args and output_args"
        )
    if best != before:
        patches.warn(f"stage {stage}: its input is taken to look like stage {best}'s output")
    return mail.get(f"{_STAGE}{best}")


def _unrecorded(recorder: Recorder) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            before, recorder.recording = recorder.recording, False
            try:
                return plain(*args, **kwargs)
            finally:
                recorder.recording = before

        return run

    return make


def _numbered(where: Whereabouts) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps functions whose first argument is the number of the micro-batch."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            number = args[0] if args else next(iter(kwargs.values()), -1)
            before, where.micro_batch = where.micro_batch, number if isinstance(number, int) else -1
            try:
                return plain(self, *args, **kwargs)
            finally:
                where.micro_batch = before

        return run

    return make
