"""Files that are moved into place when they are whole."""

import gzip

import pytest

from chakrakit.sources.pytorch.recorder.profiler import compress, write_json


def test_a_compressed_file_takes_the_place_of_the_plain_one(tmp_path):
    path = tmp_path / "et_0.json"
    path.write_bytes(b'{"nodes": []}')
    compress(path)
    assert [p.name for p in tmp_path.iterdir()] == ["et_0.json.gz"]
    assert gzip.decompress((tmp_path / "et_0.json.gz").read_bytes()) == b'{"nodes": []}'


def test_json_is_readable_and_ends_with_a_line(tmp_path):
    write_json(tmp_path / "card.json", {"rank": 0, "steps": [1, 2]})
    assert (tmp_path / "card.json").read_text() == (
        '{\n "rank": 0,\n "steps": [\n  1,\n  2\n ]\n}\n'
    )


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "card.json"
    write_json(path, {"rank": 0})
    with pytest.raises(TypeError):
        write_json(path, {"rank": object()})
    assert path.read_text() == '{\n "rank": 0\n}\n'
