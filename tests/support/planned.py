"""Plans of recordings written by hand."""

from __future__ import annotations

from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare
from support.recorded import plain, several, tensor

ONE = plain(1, "Int")


def plan_of(sheet, folder, **options):
    return prepare(sheet.traces(folder), ReplayOptions(**options)).plans[0]


def reduce_of(storage, size=4):
    given = [
        several(tensor(storage, size)),
        plain("<Object>", "Object"),
        plain("<Object>", "Object"),
    ]
    return [*given, plain("<None>", "None"), plain(True, "Bool"), plain(-1, "Int")]
