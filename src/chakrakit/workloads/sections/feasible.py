"""Whether a graph of sections can be built, and in which order its sections come."""

from __future__ import annotations

from collections.abc import Iterator

from chakrakit.errors import ConfigError, nearest
from chakrakit.workloads.description import Decoder, Section, SectionGraph, Vision, Workload, check


def check_sections(graph: SectionGraph) -> None:
    """A ConfigError that says everything that is wrong."""
    problems = list(_problems(graph))
    if problems:
        raise ConfigError("; ".join(problems))
    in_topological_order(graph)
    for name, section in graph.sections.items():
        try:
            check(workload_of_section(graph, name))
        except ConfigError as error:
            raise ConfigError(f"section {name}: {error}") from None
        if feeds(graph, name) and section.plan.schedule not in ("1f1b", "gpipe"):
            raise ConfigError(
                f"section {name} feeds others, so it goes forward with all samples before it goes back "
                f"(gpipe); leave schedule {section.plan.schedule} out"
            )


def _problems(graph: SectionGraph) -> Iterator[str]:
    names = graph.sections
    if not names:
        yield "no sections; give at least one, with its model"
    for name, section in names.items():
        if not name.isidentifier():
            yield f"section {name!r}: a name has letters, digits and _ alone"
        for other in [*section.after, *([section.ranks_of] if section.ranks_of else [])]:
            if other not in names or other == name:
                yield f"section {name} names {other!r}, which is not another section; {nearest(other, names)}"
        yield from _own_problems(graph, name, section)
    samples = graph.step.samples
    if samples.batcher:
        yield "sections make micro-batches themselves (micro_batch of each); leave batcher out"
    if graph.step.kind != "train":
        yield f"sections are for training steps, not for {graph.step.kind}; use trains: false"
    if graph.step.steps < 1:
        yield f"steps is {graph.step.steps}; sections need 1 or more"


def _own_problems(graph: SectionGraph, name: str, section: Section) -> Iterator[str]:
    after = [s for s, other in graph.sections.items() if name in other.after]
    if not 0 < section.share <= 1:
        yield f"section {name}: share is {section.share}; it is more than 0 and at most 1"
    if section.micro_batch < 1:
        yield f"section {name}: micro_batch is {section.micro_batch}; it is 1 or more"
    if section.output == "logits" and (section.trains or not isinstance(section.model, Decoder)):
        yield f"section {name}: logits are handed on by decoders that do not train; set trains: false"
    if section.trains and any(not graph.sections[s].trains for s in after):
        yield f"section {name} trains, but a section after it does not go back; give that one trains: true"
    if section.lengths.mean and not isinstance(section.model, Decoder | Vision):
        yield f"section {name}: lengths are for decoders (tokens) and vision models (images)"
    if section.modalities and not graph.step.samples.sample_file:
        yield f"section {name}: modalities are those of a file of samples; give sample_file, or a share"
    if section.plan.tasks or (section.plan.chunks > 1 and after):
        yield f"section {name}: cells, and chunks of a section that feeds others, are not built"
    if section.plan.context == "blocks":
        yield f"section {name}: context blocks is not built for sections; use gather, ring or ulysses"
    home = graph.sections.get(section.ranks_of)
    if home is not None and (home.ranks_of or home.plan.world != section.plan.world):
        yield (
            f"section {name} has {section.plan.world} ranks and shares those of {section.ranks_of}, which "
            f"has {home.plan.world}{' and shares others itself' if home.ranks_of else ''}; give both as many"
        )


def in_topological_order(graph: SectionGraph) -> list[str]:
    """Sections, each after those that it takes results from; a ConfigError for a circle."""
    order: list[str] = []
    while len(order) < len(graph.sections):
        ready = [
            name
            for name, s in graph.sections.items()
            if name not in order and all(a in order for a in s.after)
        ]
        if not ready:
            rest = ", ".join(n for n in graph.sections if n not in order)
            raise ConfigError(
                f"sections {rest} wait for each other in a circle; look at their after"
            )
        order.append(ready[0])
    return order


def feeds(graph: SectionGraph, name: str) -> bool:
    """Whether a section has others after it."""
    return any(name in s.after for s in graph.sections.values())


def workload_of_section(graph: SectionGraph, name: str) -> Workload:
    """A section by itself: a micro-batch for every replica, which its samples replace."""
    section, step = graph.sections[name], graph.step
    plan = section.plan
    between = feeds(graph, name)
    if between:
        plan = plan.replace(schedule="gpipe")
    return Workload(
        model=section.model,
        plan=plan,
        step=step.replace(
            kind="train" if section.trains else "forward",
            seq=section.seq or step.seq,
            micro_batch=section.micro_batch,
            global_batch=plan.dp * section.micro_batch,
            loss_reduce=step.loss_reduce and not between,
            steps=1,
            samples=type(step.samples)(),
            lengths=type(step.lengths)(),
        ),
    )
