"""The tables and views of rocprofv3's databases, as its own schema files lay them out.

Read in the public sources of rocprofiler-sdk (source/share/rocprofiler-sdk-rocpd: rocpd_tables.sql,
rocpd_views.sql, data_views.sql) and in the function `write_rocpd` that fills them: names, columns, what
may not be null, which table a column points to. Schema 3 keeps times and places in the rows; the next one
keeps them in `rocpd_timestamp` and `rocpd_track`, and names kinds of events in `rocpd_info_category`.
"""

from __future__ import annotations

import sqlite3

_EXTRA = "extdata=json"
_SIZES = " ".join(f"{part}_size_{axis}!" for part in ("workgroup", "grid") for axis in "xyz")
_INFO = {
    "metadata": "tag=text! value=text!",
    "string": "string=text!",
    "info_node": "hash! machine_id=text! system_name=text hostname=text release=text version=text "
    "hardware_name=text domain_name=text",
    "info_process": f"nid! ppid_of pid_of! init fini start end command=text environment=json {_EXTRA}",
    "info_thread": f"nid! ppid_of pid! tid_of! name=text start end {_EXTRA}",
    "info_agent": "nid! pid! type=text absolute_index logical_index type_index uuid name=text "
    f"model_name=text vendor_name=text product_name=text user_name=text {_EXTRA}",
    "info_queue": f"nid! pid! name=text {_EXTRA}",
    "info_stream": f"nid! pid! name=text {_EXTRA}",
    "info_pmc": f"nid! pid! agent_id target_arch=text name=text! symbol=text! {_EXTRA}",
    "info_code_object": "nid! pid! agent_id uri=text load_base load_size load_delta storage_type=text "
    + _EXTRA,
    "info_kernel_symbol": "nid! pid! code_object_id! kernel_name=text display_name=text kernel_object "
    "kernarg_segment_size kernarg_segment_alignment group_segment_size private_segment_size sgpr_count "
    f"arch_vgpr_count accum_vgpr_count {_EXTRA}",
    "arg": f"event_id! position! type=text! name=text! value=text {_EXTRA}",
    "pmc_event": f"event_id pmc_id! value=real {_EXTRA}",
}
_EVENT = f"stack_id_of parent_stack_id_of correlation_id_of call_stack=json line_info=json {_EXTRA}"
_TABLES = {
    3: _INFO
    | {
        "track": f"nid! pid tid name_id {_EXTRA}",
        "event": f"category_id {_EVENT}",
        "region": f"nid! pid! tid! start! end! name_id! event_id {_EXTRA}",
        "sample": f"track_id! timestamp! event_id {_EXTRA}",
        "kernel_dispatch": "nid! pid! tid agent_id! kernel_id! dispatch_id_of! queue_id! stream_id! start! "
        f"end! private_segment_size group_segment_size {_SIZES} region_name_id event_id {_EXTRA}",
        "memory_copy": "nid! pid! tid start! end! name_id! dst_agent_id dst_address src_agent_id "
        f"src_address size! queue_id stream_id region_name_id event_id {_EXTRA}",
        "memory_allocate": "nid! pid! tid agent_id type=text level=text start! end! address size! queue_id "
        f"stream_id event_id {_EXTRA}",
    },
    4: _INFO
    | {
        "info_category": f"name=text! {_EXTRA}",
        "track": f"nid! ppid_of pid tid agent_id queue_id stream_id name_id {_EXTRA}",
        "timestamp": "value! phase track_id",
        "event": f"info_category_id {_EVENT}",
        "region": f"track_id! name_id! start_id! end_id! event_id {_EXTRA}",
        "sample": f"track_id! name_id! timestamp_id! event_id {_EXTRA}",
        "kernel_dispatch": "track_id! kernel_id! dispatch_id_of! start_id! end_id! private_segment_size "
        f"group_segment_size {_SIZES} region_name_id event_id {_EXTRA}",
        "memory_copy": "track_id! start_id! end_id! name_id! dst_agent_id dst_address src_agent_id "
        f"src_address size! region_name_id event_id {_EXTRA}",
        "memory_allocate": "track_id! type=text level=text start_id! end_id! name_id! address size! "
        f"region_name_id event_id {_EXTRA}",
    },
}
"""By schema: `!` is NOT NULL, `=text` a type other than an integer; what ends in `_of` is a number of its
own, although other tables' columns of that name point somewhere."""
_POINTS = {
    "nid": "info_node", "pid": "info_process", "tid": "info_thread", "agent_id": "info_agent",
    "dst_agent_id": "info_agent", "src_agent_id": "info_agent", "queue_id": "info_queue",
    "stream_id": "info_stream", "pmc_id": "info_pmc", "code_object_id": "info_code_object",
    "kernel_id": "info_kernel_symbol", "name_id": "string", "region_name_id": "string",
    "category_id": "string", "info_category_id": "info_category", "event_id": "event", "track_id": "track",
    "start_id": "timestamp", "end_id": "timestamp", "timestamp_id": "timestamp",
}  # fmt: skip
_TYPES = {"": "BIGINT", "text": "TEXT", "real": "REAL", "json": 'JSONB DEFAULT "{}" NOT NULL'}
_KERNELS = """create view if not exists `kernels`
as select K.id, K.guid, S.display_name as name, K.dispatch_id from rocpd_kernel_dispatch K
inner join rocpd_info_kernel_symbol S on S.id = K.kernel_id and S.guid = K.guid"""


def lay_out(to: sqlite3.Connection, schema: int, number: str) -> None:
    """Empty tables of one recording, with views on them that do not say its number."""
    to.execute("pragma foreign_keys = on")
    guid = number.removeprefix("_").replace("_", "-")
    for table, columns in _TABLES[schema].items():
        parts = ['"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT']
        if table != "metadata":
            parts.append(f'"guid" TEXT DEFAULT "{guid}" NOT NULL')
        words = columns.split()
        parts += [_column(word) for word in words]
        parts += [_reference(word, number) for word in words if _name(word) in _POINTS]
        to.execute(f"create table if not exists `rocpd_{table}{number}` ({', '.join(parts)})")
        to.execute(
            f"create view if not exists `rocpd_{table}` as select * from `rocpd_{table}{number}`"
        )
    to.execute(_KERNELS)
    facts = {"schema_version": str(schema), "uuid": number, "guid": guid}
    to.executemany(f"insert into rocpd_metadata{number} (tag, value) values (?, ?)", facts.items())


def _name(word: str) -> str:
    return word.rstrip("!").partition("=")[0]


def _column(word: str) -> str:
    kind = _TYPES[word.rstrip("!").partition("=")[2]]
    return f'"{_plain(_name(word))}" {kind}{" NOT NULL" if word.endswith("!") else ""}'


def _plain(name: str) -> str:
    return "category_id" if name == "info_category_id" else name.removesuffix("_of")


def _reference(word: str, number: str) -> str:
    target = f"`rocpd_{_POINTS[_name(word)]}{number}`"
    return f"FOREIGN KEY ({_plain(_name(word))}) REFERENCES {target} (id) ON UPDATE CASCADE"
