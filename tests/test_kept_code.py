"""Machine code that is kept between runs of the tests."""

import sqlite3

import kept_code
import pytest

from vtakit.compiler.codegen.llvm import passes
from vtakit.compiler.codegen.llvm.target import Target

TEXT = "define i32 @f(i32 %x) {\n  %y = mul i32 %x, 7\n  ret i32 %y\n}\n"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_code, "LEAST_SECONDS", 0)
    return kept_code.KeptCode(tmp_path / "llvm.sqlite")


@pytest.fixture
def calls(monkeypatch):
    """Texts that LLVM is given."""
    found, real = [], passes.machine_code

    def machine_code(text, target, to):
        found.append(text)
        return real(text, target, to)
    monkeypatch.setattr(passes, "machine_code", machine_code)
    return found


def test_llvm_translates_the_same_text_once(kept, calls):
    host = Target.host()
    first = kept(TEXT, host, "object")
    assert kept(TEXT, host, "object") == first == passes.machine_code(TEXT, host, "object")
    assert len(calls) == 2
    other = Target(host.triple)
    for given in ((TEXT.replace("7", "9"), host, "object"), (TEXT, other, "object"), (TEXT, host, "assembly")):
        assert kept(*given) == passes.machine_code(*given)
        assert len(calls) % 2 == 0


def test_a_damaged_or_locked_database_is_none(kept, calls, tmp_path):
    host = Target.host()
    first = kept(TEXT, host, "object")
    kept.rows.execute("UPDATE code SET made = ?", (first[:-1] + bytes([first[-1] ^ 1]),))
    assert kept(TEXT, host, "object") == first
    kept.rows.execute("PRAGMA busy_timeout = 10")
    with sqlite3.connect(tmp_path / "llvm.sqlite") as other:
        other.execute("BEGIN EXCLUSIVE")
        text = TEXT.replace("7", "9")
        assert kept(text, host, "object") == kept(text, host, "object")
    assert len(calls) == 4


def test_least_recently_used_entries_make_room(kept, calls):
    texts = [TEXT.replace("7", str(n)) for n in range(5)]
    sizes = [len(kept(text, Target.host(), "object")) for text in texts]
    kept.prune(sum(sizes[2:]) + sizes[0] // 2)
    assert kept.rows.execute("SELECT COUNT(*) FROM code").fetchone() == (3,)
    kept(texts[-1], Target.host(), "object")
    assert len(calls) == 5
