"""The plan of one rank that adds two tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.recorded import ADD, Sheet, tensor
from support.replayed import ONE, plan_text


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    """As the runner reads it."""
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(2, 4), ONE], [tensor(3, 4)])
    return plan_text(sheet, tmp_path)
