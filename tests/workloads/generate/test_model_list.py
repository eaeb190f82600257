"""The models of the catalog, with their parameters."""

from __future__ import annotations

from chakrakit.workloads.generate import model_list
from chakrakit.workloads.models import catalog


def test_every_model_is_listed_in_the_catalogs_order_with_its_parameters() -> None:
    found = model_list().models
    assert [m.name for m in found] == list(catalog())
    rows = {m.name: m for m in found}
    assert rows["llama3.1-8b"].parameters == rows["llama3.1-8b"].active_parameters == 8_030_261_248
    assert rows["mixtral-8x7b"].active_parameters < rows["mixtral-8x7b"].parameters
    assert (rows["llama3.1-8b"].family, rows["dlrm-criteo"].family) == ("decoder", "recommender")
