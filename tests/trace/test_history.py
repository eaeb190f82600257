"""Which `memory` counter was recorded by an allocator."""

import pyarrow as pa

from chakrakit.trace.sets import as_recorded, history_of

TABLE = pa.table({"rank": [0], "time_ns": [5], "bytes": [100]})


def test_a_counter_is_a_history_where_the_settings_say_so():
    settings = as_recorded({"seed": 1})
    assert history_of(settings, {"memory": TABLE}) is TABLE
    assert history_of(settings, {}) is None
    assert history_of({"seed": 1}, {"memory": TABLE}) is None


def test_what_is_not_recorded_is_not_said_to_be():
    assert as_recorded(as_recorded({"seed": 1}), recorded=False) == {"seed": 1}
