"""Limits on files: said in the documentation, with the values that hold."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from vtakit.base import limits
from vtakit.base.jsons import read_json
from vtakit.base.limits import LimitError, check_limit, check_name, check_shape

PAGE = (Path(__file__).parents[3] / "docs" / "files.md").read_text(encoding="utf-8")
NAMES = [name for name in vars(limits) if name.startswith("MAX_")]


def test_the_page_has_every_limit():
    rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in PAGE.splitlines() if line.startswith("| `MAX_")}
    assert rows == {f"`{name}`": f"{getattr(limits, name):,}" for name in NAMES}


def test_what_is_above_a_limit_is_told_with_both():
    check_limit(5, 5, "it")
    check_name("x" * limits.MAX_NAME_CHARS, "it")
    check_shape([1] * limits.MAX_RANK, "it")
    for call, words in [
        (lambda: check_limit(1001, 1000, "the thing", " bytes"), ("the thing is 1,001 bytes", "1,000")),
        (lambda: check_name("x" * 3000, "the name"), ("3,000", "1,024")),
        (lambda: check_shape([1] * 33, "x"), ("rank", "33", "32")),
        (lambda: check_shape([1 << 31], "x"), ("dimension", "2,147,483,648")),
        (lambda: check_shape([1 << 20, 1 << 21], "x"), ("elements", "2,199,023,255,552")),
    ]:
        with pytest.raises(LimitError) as caught:
            call()
        for word in words:
            assert word in str(caught.value)


def nested(depth: int, pair: str = "[]") -> str:
    inner = {"[]": ("[", "]"), "{}": ('{"a":', "}")}[pair]
    return inner[0] * depth + "1" + inner[1] * depth


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_json_is_read_up_to_its_depth(pair):
    assert read_json(nested(limits.MAX_NESTING, pair), most_bytes=1000)
    for text in (nested(limits.MAX_NESTING + 1, pair), nested(100_000, pair), "[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(LimitError, match=r"nested deeper than the limit, 64 levels"):
            read_json(text, most_bytes=10_000_000)


def test_brackets_in_strings_are_no_nesting():
    assert read_json('["' + "[" * 500 + '", "\\"[[{{", "a\\\\"]', most_bytes=1000) == ["[" * 500, '"[[{{', "a\\"]
    wide = "[" + ",".join(["[]"] * 1000) + "]"
    assert len(read_json(wide, most_bytes=10_000)) == 1000


@pytest.mark.parametrize("text", [b"", b"[", b"]" * 100, b"{]", b"\xff", b"[1,]", b'"abc'])
def test_other_text_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text, most_bytes=1000)


def test_integers_of_many_digits_are_refused_in_our_words():
    assert read_json("9" * 4000, most_bytes=10_000) == int("9" * 4000)
    with pytest.raises(LimitError, match="the number of digits of an integer of it is 5,000; the limit is 4,000"):
        read_json(f"[{'9' * 5000}]", most_bytes=10_000)


def test_long_text_is_not_read():
    with pytest.raises(LimitError, match=r"^the text has 11 bytes; the limit is 10"):
        read_json(b"[" + b" " * 9 + b"]", most_bytes=10, what="the text")


def seconds_to_read(text: bytes) -> float:
    """The least of three."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        with suppress(ValueError):
            read_json(text, most_bytes=limits.MAX_JSON_BYTES)
        taken.append(time.process_time() - begin)
    return min(taken)


@pytest.mark.parametrize("piece", [b'"', b'\\"', b'"\\', b'["', b'"a[\\"', b"[", b"{}"])
@pytest.mark.parametrize("begin", [b"", b'"'])
def test_text_is_read_in_linear_time(piece, begin):
    """Strings that stay open too: 32 times the text takes 32 times as long, or 1,024 times where each quote reads to the end."""
    small, large = (seconds_to_read(begin + piece * (size // len(piece))) for size in (1 << 16, 1 << 21))
    assert large < 128 * max(small, 1e-3)


@pytest.mark.parametrize(("begin", "piece", "end"), [(b"[", b"{},", b"0]"), (b"[", b"0,", b"0]"), (b"{", b'"":"",', b'"":0}')])
def test_json_of_too_many_values_is_refused_before_they_are_made(begin, piece, end, monkeypatch):
    monkeypatch.setattr("json.loads", lambda *_, **__: pytest.fail("it is read"))
    text = begin + piece * limits.MAX_JSON_VALUES + end
    with pytest.raises(LimitError, match=r"^the number of values of the text is [24],0.*; the limit is 2,000,000"):
        read_json(text, most_bytes=limits.MAX_JSON_BYTES, what="the text")


def test_strings_across_the_chunks_in_which_they_are_removed():
    some = ["[" * 1000, "a\\", '"{'] * 2000
    assert read_json(json.dumps(some), most_bytes=limits.MAX_JSON_BYTES) == some
    long = ["[" * (3 << 20), "]"]
    assert read_json(json.dumps(long), most_bytes=limits.MAX_JSON_BYTES) == long
