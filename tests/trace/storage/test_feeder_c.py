"""The feeder's C interface, as a C++ and a C program use it; traces are written by protobuf."""

from __future__ import annotations

import importlib.resources
import io
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto

import chakrakit
from chakrakit.trace.storage import feeder_paths
from support.paths import ROOT

COMP, RECV, COLL, METADATA = 4, 6, 7, 1

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Message classes of the schema by name, in a descriptor pool of their own."""
    from grpc_tools import protoc

    out = tmp_path_factory.mktemp("schema") / "et.bin"
    include = importlib.resources.files("grpc_tools") / "_proto"
    where = [f"-I{ROOT / 'proto'}", f"-I{include}", f"--descriptor_set_out={out}"]
    assert protoc.main(["protoc", *where, "et_def.proto"]) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)

    def message(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))

    return message


def write(path: Path, schema: Any, nodes: list[dict[str, Any]]) -> Path:
    messages = [schema("GlobalMetadata")(version="1.0"), *(schema("Node")(**n) for n in nodes)]
    out = io.BytesIO()
    for each in messages:
        proto.serialize_length_prefixed(each, out)
    path.write_bytes(out.getvalue())
    return path


def compile_program(source: Path, program: Path, compiler: str = "g++") -> Path:
    standard = "-std=c++17" if compiler == "g++" else "-std=c99"
    command = [compiler, standard, "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", str(source)]
    command += ["-o", str(program), *feeder_paths().flags.split()]
    subprocess.run(command, check=True)
    return program


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulator")
    return compile_program(ROOT / "examples/feeder_simulator/simulator.cpp", folder / "simulator")


def run(*command: object) -> tuple[int, str, str]:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def makespan(nodes: list[dict[str, Any]]) -> int:
    """What the example should find: two units, the lowest ready id first."""
    waiting = {n["id"]: n for n in nodes}
    done: set[int] = set()
    running: dict[bool, tuple[int, int]] = {}  # comm unit? -> end, id
    now = 0
    while waiting or running:
        for id in sorted(waiting):
            n, comm = waiting[id], waiting[id]["type"] >= 5
            if comm not in running and done.issuperset([*n["data_deps"], *n["ctrl_deps"]]):
                running[comm] = (now + (0 if n["type"] == METADATA else duration(n)), id)
                del waiting[id]
        now = min(end for end, _ in running.values())
        for unit, (end, id) in list(running.items()):
            if end == now:
                done.add(id)
                del running[unit]
    return now


def duration(n: dict[str, Any]) -> int:
    size = sum(a["int64_val"] for a in n["attr"] if a["name"] == "comm_size")
    return n["duration_micros"] * 1000 or (size // 100 if n["type"] >= 5 else 0)


def random_nodes(rng: random.Random, n: int) -> list[dict[str, Any]]:
    nodes = []
    for id in range(n):
        pick = [rng.randrange(max(0, id - 20), id) for _ in range(rng.randrange(3))] if id else []
        size = {"name": "comm_size", "int64_val": rng.randrange(10**7)}
        kind = rng.choice([METADATA, COMP, COMP, RECV, COLL])
        each = {"id": id, "type": kind, "duration_micros": rng.randrange(9), "attr": [size]}
        nodes.append({**each, "data_deps": pick[:1], "ctrl_deps": pick[1:]})
    rng.shuffle(nodes)
    return nodes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_example_finds_the_models_makespan(
    seed: int, schema: Any, simulator: Path, tmp_path: Path
) -> None:
    nodes = random_nodes(random.Random(seed), 300)
    path = write(tmp_path / "t.et", schema, nodes)
    assert run(simulator, path) == (0, f"makespan: {makespan(nodes)} ns", "")


@pytest.mark.slow
def test_the_example_reports_what_is_wrong(schema: Any, simulator: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "t.et", schema, [{"id": 1, "name": "gemm", "data_deps": [9]}])
    told = "node 1 'gemm' waits for node 9, which is not in the trace"
    assert run(simulator, path) == (1, "", f"{path}: {told}")
    assert (
        run(simulator, "/none.et")[2] == "/none.et: cannot open /none.et: No such file or directory"
    )
    path.write_bytes(b"\x1f\x8b\x08\x00")
    assert "gzip-compressed; unpack it (chakra convert IN OUT.et)" in run(simulator, path)[2]
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00")
    assert "zstd-compressed" in run(simulator, path)[2]
    path.write_bytes(b"\x00\x09\x08")
    assert "byte 1: node #1: its length is 9 bytes, but the input ends" in run(simulator, path)[2]


PROGRAM = r"""
#include <chakrakit/feeder.h>
#include <stdio.h>
#include <string.h>

static int64_t from_file(void* file, void* buffer, size_t n) {
    return (int64_t)fread(buffer, 1, n < 3 ? n : 3, (FILE*)file);
}
static int64_t broken(void* context, void* buffer, size_t n) {
    (void)context, (void)buffer, (void)n;
    return -7;
}

static void show(const chakra_node* n) {
    int64_t dims[4], big[4];
    uint64_t deps[1];
    char text[3];
    const void* raw;
    size_t size;
    printf("%s %d %d %lld %lld %lld %s\n", chakra_node_name(n), chakra_node_type(n),
           chakra_node_is_cpu_op(n), (long long)chakra_node_comm_type(n),
           (long long)chakra_node_comm_size(n), (long long)chakra_node_comm_src(n),
           chakra_node_pg_name(n));
    printf("dims %lld", (long long)chakra_node_involved_dim(n, dims, 4));
    printf(" first %lld", (long long)dims[0]);
    printf(" deps %lld", (long long)chakra_node_data_deps(n, deps, 1));
    printf(" ops %.1f", chakra_node_double(n, "ops", -1));
    printf(" tag %lld", (long long)chakra_node_int(n, "absent", 42));
    printf(" has %d", chakra_node_has(n, "ops"));
    printf(" text %lld", (long long)chakra_node_string(n, "pg_name", text, sizeof text));
    printf(" %s", text);
    printf(" list %lld", (long long)chakra_node_int_list(n, "ints", big, 4));
    printf(" %lld", (long long)big[1]);
    printf(" raw %d", chakra_node_raw(n, "pg_name", &raw, &size));
    printf(" %d\n", (int)size);
}

int main(int argc, char** argv) {
    chakra_feeder* f;
    chakra_feeder_options options;
    const chakra_node* nodes[8];
    uint64_t ids[8];
    FILE* file = fopen(argv[argc - 1], "rb");
    chakra_feeder_defaults(&options);
    options.window = 2;
    printf("%s\n", chakra_feeder_version());
    printf("%d ", chakra_feeder_open_callback(broken, NULL, NULL, &f));
    printf("%s; next %d\n", chakra_feeder_error(f), chakra_feeder_next(f, nodes));
    chakra_feeder_close(f);
    printf("%d\n", chakra_feeder_open_callback(from_file, file, &options, &f));
    printf("ready %lld: ", (long long)chakra_feeder_ready(f, ids, 8));
    printf("%llu\n", (unsigned long long)ids[0]);
    printf("take 7: %d", chakra_feeder_take(f, 7, nodes));
    printf(" again: %d", chakra_feeder_take(f, 7, nodes + 1));
    printf(" %s\n", chakra_feeder_error(f));
    printf("none: %d", chakra_feeder_next(f, nodes + 1));
    printf(" in flight %d\n", (int)chakra_feeder_in_flight(f));
    printf("children %lld\n", (long long)chakra_feeder_children(f, 7, ids, 8));
    printf("back: %d", chakra_feeder_push_back(f, 7));
    printf(" batch %lld\n", (long long)chakra_feeder_next_batch(f, nodes, 8));
    show(nodes[0]);
    ids[0] = 7;
    printf("done: %d", chakra_feeder_done_batch(f, ids, 1));
    printf(" gone: %d\n", chakra_feeder_lookup(f, 7) == NULL);
    while (chakra_feeder_next(f, nodes) == CHAKRA_TAKEN)
        chakra_feeder_done(f, chakra_node_id(nodes[0]));
    printf("finished %d\n", chakra_feeder_is_finished(f));
    chakra_feeder_close(f);
    fclose(file);
    return 0;
}
"""

EXPECTED = f"""{chakrakit.__version__}
-4 the read callback gave -7: Input/output error; next -3
0
ready 1: 7
take 7: 1 again: -3 cannot take node 7: it is taken already
none: 2 in flight 1
children 2
back: 0 batch 1
all-reduce 7 1 2 4096 -1 group
dims 2 first 1 deps 0 ops 2.5 tag 42 has 1 text 5 gr list 3 -5 raw 29 5
done: 0 gone: 1
finished 1"""


def test_every_call_from_plain_c(schema: Any, tmp_path: Path) -> None:
    attrs = [
        {"name": "is_cpu_op", "int32_val": 1},
        {"name": "comm_type", "uint32_val": 2},
        {"name": "comm_size", "fixed64_val": 4096},
        {"name": "pg_name", "string_val": "group"},
        {"name": "involved_dim", "bool_list": {"values": [True, False]}},
        {"name": "ints", "sint64_list": {"values": [1, -5, 2**40]}},
        {"name": "ops", "float_val": 2.5},
    ]
    nodes = [
        {"id": 9, "data_deps": [8, 7]},
        {"id": 8, "ctrl_deps": [7]},
        {"id": 7, "name": "all-reduce", "type": COLL, "attr": attrs},
    ]
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    program = compile_program(source, tmp_path / "program", "gcc")
    status, out, err = run(program, write(tmp_path / "t.et", schema, nodes))
    assert (status, err) == (0, "")
    assert out == EXPECTED


def test_only_the_interface_is_exported() -> None:
    listed = run("nm", "-D", "--defined-only", feeder_paths().library)[1].splitlines()
    names = {line.split()[-1] for line in listed}
    assert "chakra_feeder_next" in names
    assert {n for n in names if not n.startswith(("chakra_feeder_", "chakra_node_"))} == set()
