"""Records: whole lines on the disk, a torn one left out, foreign files refused, files merged."""

import json
import os
import resource
import subprocess
import sys

import pytest
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime import cli
from vtakit.runtime.tune.records import Record, Records, Writer, merge, versions

KEY = {"target": "vta", "expression": "abc", "system": {"latency": 40}}
OTHER = {"target": "vta", "expression": "abc", "system": {"latency": 60}}


def record(cost, key=KEY, **more):
    return Record(task="conv1", key=key, decisions={"result.tile": [1, 2, 7, 56], "result.keep": True}, cost=cost, **more)


def written(path, *records):
    writer = Writer(path)
    for each in records:
        writer.add(each)
    writer.close()
    return path


def test_what_is_written_is_read(tmp_path):
    given = [record(5.0, seed=3, trial=7, search="random"), record(None, error="refused: it does not fit"), record(4.0, OTHER)]
    found = Records.read(written(tmp_path / "r.jsonl", *given))
    assert [*found] == given
    assert not found.torn
    assert found.best(KEY) == given[0]
    assert found.best(OTHER) == given[2]
    assert found.best({"target": "vta"}) is None
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])["vtakit_record"] == 1


def test_a_record_of_this_version_comes_before_a_cheaper_one_of_another(tmp_path):
    old = record(3.0, versions={"vtakit": "0.0.1", "code": "0"})
    found = Records.read(written(tmp_path / "r.jsonl", old, record(5.0)))
    assert found.best(KEY).cost == 5.0
    assert found.best(KEY).versions == versions()
    assert Records([old]).best(KEY) == old


@pytest.mark.parametrize("cut", [1, 10, 100, 200])
def test_a_torn_last_line_is_left_out_and_ended(tmp_path, cut):
    path = written(tmp_path / "r.jsonl", record(5.0), record(4.0))
    os.truncate(path, path.stat().st_size - cut)
    found = Records.read(path)
    assert found.torn
    assert [each.cost for each in found] == [5.0]
    written(path, record(3.0))
    again = Records.read(path)
    assert [each.cost for each in again] == [5.0, 3.0]
    assert not again.torn


@pytest.mark.parametrize(("text", "told"), [
    (b'{"a": 1}\n', "is no record of the tuner"), (b"\x7fELF\n", "is no record of the tuner"),
    (b"a,b\n1,2\n", "is no record of the tuner"),
    (b"PK\x03\x04", "is no record of the tuner"), (b'{"vtakit_record": 7}\n', "has schema 7, and this version reads 1"),
    (b'{"vtakit_record": 1, "task": "a"}\n', "is damaged"),
])
def test_a_file_of_something_else_is_refused(tmp_path, text, told):
    path = tmp_path / "r.jsonl"
    path.write_bytes(text)
    with pytest.raises(TuneError) as caught:
        Records.read(path)
    assert f"{str(path)!r}, line 1 {told}" in str(caught.value)


@pytest.mark.parametrize(("field", "told"), [
    ('"key":[]', "key is []"), ('"cost":-1', "cost is -1"), ('"cost":NaN', "cost is nan"), ('"cost":1e999', "cost is inf"),
    ('"cost":true', "cost is True"), ('"cost":"1"', "cost is '1'"), ('"task":5', "task is 5"), ('"kind":null', "kind is None"),
    ('"versions":"1"', "versions is '1'"), ('"spread":[]', "spread is []"), ('"seed":1.5', "seed is 1.5"),
])
def test_a_field_of_another_type_is_named(tmp_path, field, told):
    path = tmp_path / "r.jsonl"
    path.write_text('{"vtakit_record":1,"task":"a","key":{},"decisions":{},"cost":1,' + field + "}\n")
    with raises(TuneError, f"{str(path)!r}, line 1 is damaged: its {told}"):
        Records.read(path)


def test_a_file_that_is_not_there(tmp_path):
    assert [*Records.read(tmp_path / "none", missing_ok=True)] == []
    with pytest.raises(VtakitError):
        Records.read(tmp_path / "none")


def test_a_full_disk_is_a_sentence_and_leaves_what_was_written(tmp_path):
    path = written(tmp_path / "r.jsonl", record(5.0))
    code = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "sys.path.insert(0, sys.argv[2]); from test_records import record, written\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
            "from vtakit.base.errors import VtakitError\n"
            "try:\n    written(sys.argv[1], record(4.0))\n"
            "except VtakitError as error:\n    print(error)\n")
    here = os.path.dirname(__file__)
    tests = os.path.join(here, "..", "..")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), here, str(path.stat().st_size + 50)], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])})
    assert "the file of records" in done.stdout
    assert "cannot be written: File too large; what it holds stays, and the same command goes on from there" in done.stdout
    found = Records.read(path)
    assert [each.cost for each in found] == [5.0]
    assert found.torn
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_files_are_merged_without_doubles(tmp_path, capsys):
    a = written(tmp_path / "a.jsonl", record(5.0), record(4.0))
    b = written(tmp_path / "b.jsonl", record(4.0), record(2.0, OTHER))
    assert merge([a, b], tmp_path / "c.jsonl") == (3, 1)
    assert sorted(each.cost for each in Records.read(tmp_path / "c.jsonl")) == [2.0, 4.0, 5.0]
    assert cli.main(["records", str(a), str(b), "--merge", str(tmp_path / "d.jsonl")]) == 0
    assert "3 records, 1 double left out" in capsys.readouterr().out
    assert cli.main(["records", str(tmp_path / "d.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["records"], each["best"]) for each in found] == [(2, 4.0), (1, 2.0)]
    assert cli.main(["records", str(tmp_path / "d.jsonl")]) == 0
    assert "3 records of 2 tasks and networks" in capsys.readouterr().out


def test_the_command_refuses_a_foreign_file(tmp_path, capsys):
    (tmp_path / "x.jsonl").write_text("hello\n")
    assert cli.main(["records", str(tmp_path / "x.jsonl")]) == 2
    assert "is no record of the tuner: 'hello'" in capsys.readouterr().err


def test_records_say_what_they_are_of():
    with raises(TuneError, "x is damaged: its cost is True"):
        Record.parse(b'{"vtakit_record":1,"task":"a","key":{},"decisions":{},"cost":true}', "x")
