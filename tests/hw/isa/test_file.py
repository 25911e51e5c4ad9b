"""Program files: round trip, every way in which bytes are no program, and files written whole or not at all."""

import errno
import hashlib
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import programs, raises

from vtakit.base.errors import FileError
from vtakit.base.reading import read_bytes
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.file import dump, load, parse, save
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Part, Program, Relocation

MAGIC = b"\x89VTA\r\n\x1a\n"
HEADER = {
    "isa": [1, 0], "features": 0, "config": NAMED["tiny"].to_dict(), "insns": 2, "uops": 1, "relocations": 1,
    "buffers": [
        {"name": "image", "kind": "input", "size": 100, "data": False},
        {"name": "table", "kind": "const", "size": 3, "data": True},
    ],
}
INSNS = (encode(NAMED["tiny"], "load", memory_type=2, dram_base=1, y_size=1, x_size=1), 3)
PAYLOAD = (
    INSNS[0].to_bytes(16, "little") + INSNS[1].to_bytes(16, "little")
    + b"\x67\x45\x23\x01" + b"\x00\x00\x00\x00\x01\x00\x00\x00" + b"abc"
)
PROGRAM = Program(
    config=NAMED["tiny"], insns=INSNS, uops=(0x01234567,), relocations=(Relocation(0, "image"),),
    buffers=(Buffer(name="image", size_bytes=100), Buffer(name="table", size_bytes=3, kind=BufferKind.CONST, data=b"abc")),
)


def file_of(header: object, payload: bytes = PAYLOAD, version: int = 2) -> bytes:
    """A file as the layout in the module's docstring says, its checksum right whatever the header."""
    head = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    body = MAGIC + struct.pack("<IIQ", version, len(head), len(payload)) + head + payload
    return body + hashlib.sha256(body).digest()


def test_the_layout_is_the_documented_one():
    assert dump(PROGRAM) == file_of(HEADER)
    assert parse(file_of(HEADER)) == PROGRAM
    parted = replace(PROGRAM, parts=(Part("conv/1", 1), Part("pool", 2)))
    data = file_of(HEADER | {"parts": [{"name": "conv/1", "end": 1}, {"name": "pool", "end": 2}]})
    assert dump(parted) == data
    assert parse(data) == parted


def test_files_of_the_version_before_are_read():
    """It has no values; vtakit before 2 refuses a file that has, instead of taking the values for data of a buffer."""
    assert parse(file_of(HEADER, version=1)) == PROGRAM
    for version in (0, 3):
        with raises(ProgramError, f"x.vta … version {version} … reads … 1 and 2"):
            parse(file_of(HEADER, version=version), "x.vta")


@given(programs())
def test_any_program_reads_back_to_an_equal_one(program):
    data = dump(program)
    again = parse(data)
    assert again == program
    assert [b.data for b in again.buffers] == [b.data for b in program.buffers]
    assert dump(again) == data


def test_features_are_those_that_the_instructions_need():
    mul = Program(config=DEFAULT, insns=(encode(DEFAULT, "alu", alu_opcode=4), encode(DEFAULT, "load", memory_type=5)))
    data = dump(mul)
    assert json.loads(data[24 : 24 + int.from_bytes(data[12:16], "little")])["features"] == 3


def test_a_file_cut_at_any_length_is_refused_as_such():
    whole = dump(PROGRAM)
    for size in range(len(whole)):
        if size < 8:
            first = whole[:size].hex() or "missing"
            message = f"cut.vta … not a vtakit program file … (its first bytes are {first})"
        elif size < 24:
            message = f"cut.vta is truncated: it has {size} bytes and its prefix alone has 24"
        else:
            message = f"cut.vta is truncated: it has {size} bytes and says that it has {len(whole)}"
        with raises(ProgramError, message):
            parse(whole[:size], "cut.vta")


def test_a_file_with_more_bytes_is_refused():
    whole = dump(PROGRAM)
    with raises(ProgramError, f"long.vta … too long … {len(whole) + 1} … says … {len(whole)}"):
        parse(whole + b"\0", "long.vta")


def test_any_bit_that_flips_is_noticed():
    whole = dump(PROGRAM)
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            size = len(whole)
            if at < 8:
                message = f"program … not a vtakit program file … (its first bytes are {changed[:8].hex()})"
            elif at < 12:
                version = int.from_bytes(changed[8:12], "little")
                message = f"program has program file version {version}; this vtakit reads versions 1 and 2"
            elif at < 24:
                says = 24 + 32 + int.from_bytes(changed[12:16], "little") + int.from_bytes(changed[16:24], "little")
                state = "truncated" if size < says else "too long"
                message = f"program is {state}: it has {size} bytes and says that it has {says}"
            else:
                message = "program is damaged: its SHA-256 does not match its contents"
            with raises(ProgramError, message):
                parse(bytes(changed))


@pytest.mark.parametrize("ends", ["dos", "unix"])
def test_a_transfer_as_text_breaks_the_magic(ends):
    whole = dump(PROGRAM)
    changed = whole.replace(b"\n", b"\r\n") if ends == "dos" else whole.replace(b"\r\n", b"\n")
    with raises(ProgramError, f"program … not a vtakit program file … (its first bytes are {changed[:8].hex()})"):
        parse(changed)


CONFIG_KEYS = ", ".join(sorted(HEADER["config"]))


@pytest.mark.parametrize(("changes", "message"), [
    ({"isa": [2, 0]}, "it needs ISA version 2.0; this vtakit knows 1.0"),
    ({"isa": [1, 1]}, "it needs ISA version 1.1; this vtakit knows 1.0"),
    ({"isa": [1, -1]}, "it needs ISA version 1.-1; this vtakit knows 1.0"),
    ({"isa": [1]}, "ValueError in its header: not enough values to unpack (expected 2, got 1)"),
    ({"features": 768}, "it needs features that this vtakit does not know (bits 0x300)"),
    ({"features": 1}, "its header states features 0x1 and its instructions need 0x0"),
    ({"insns": 99}, "its header asks for 1584 payload bytes of 47"),
    ({"insns": -1}, "its header asks for -16 payload bytes of 47"),
    ({"uops": 0}, "4 payload bytes belong to nothing"),
    ({"relocations": 10**30}, f"its header asks for {8 * 10**30 + 36} payload bytes of 47"),
    ({"config": HEADER["config"] | {"LOG_BLOCK": 8}}, "illegal configuration: LOG_BLOCK must be from 0 to 7, got 8"),
    ({"config": HEADER["config"] | {"LOG_BLOCKS": 4}},
     f"unknown configuration key 'LOG_BLOCKS'; did you mean 'LOG_BLOCK'? Known: {CONFIG_KEYS}"),
    ({"config": []}, "AttributeError in its header: 'list' object has no attribute 'items'"),
    ({"config": None}, "AttributeError in its header: 'NoneType' object has no attribute 'items'"),
    ({"config": "tiny"}, "AttributeError in its header: 'str' object has no attribute 'items'"),
    ({"buffers": [HEADER["buffers"][1]] * 2}, "its header asks for 50 payload bytes of 47"),
    ({"buffers": [HEADER["buffers"][0], HEADER["buffers"][1] | {"kind": "constant"}]},
     "ValueError in its header: 'constant' is not a valid BufferKind"),
    ({"buffers": [HEADER["buffers"][0], HEADER["buffers"][1] | {"name": "uops"}]},
     "buffer name 'uops' must be an identifier other than 'uops'"),
    ({"buffers": [HEADER["buffers"][0], HEADER["buffers"][1] | {"name": "image"}]}, "two buffers are named 'image'"),
    ({"buffers": [{"name": "image"}]}, "KeyError in its header: 'kind'"),
    ({"parts": [{"name": "a", "end": 1}]}, "… parts … 2 instructions … in order … 2: a 1"),
    ({"parts": [{"name": "a"}]}, "KeyError in its header: 'end'"),
    ({"parts": {"a": 2}}, "TypeError in its header: string indices must be integers, not 'str'"),
    ({"buffers": 1}, "TypeError in its header: 'int' object is not iterable"),
])
def test_a_header_that_is_wrong_says_how(changes, message):
    with raises(ProgramError, f"x.vta is inconsistent: {message}"):
        parse(file_of(HEADER | changes), "x.vta")


@pytest.mark.parametrize("key", HEADER)
def test_a_header_without_a_key_names_it(key):
    with raises(ProgramError, f"program is inconsistent: KeyError in its header: '{key}'"):
        parse(file_of({k: v for k, v in HEADER.items() if k != key}))


@pytest.mark.parametrize(("header", "message"), [
    (b"", "JSONDecodeError in its header: Expecting value: line 1 column 1 (char 0)"),
    (b"\xff", "UnicodeDecodeError in its header: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ([], "TypeError in its header: list indices must be integers or slices, not str"),
    (None, "TypeError in its header: 'NoneType' object is not subscriptable"),
    pytest.param(b"[" * 100_000, "its header is nested deeper than the limit, 64 levels (docs/files.md)", id="nested"),
])
def test_a_header_that_is_no_json_object_says_so(header, message):
    with raises(ProgramError, f"program is inconsistent: {message}"):
        parse(file_of(header))


def test_a_relocation_in_a_file_is_checked_too():
    wrong = bytearray(PAYLOAD)
    wrong[36:44] = struct.pack("<II", 2, 1)
    with raises(ProgramError, "program is inconsistent: relocation … instruction 2 … program … 2"):
        parse(file_of(HEADER, bytes(wrong)))
    wrong[36:44] = struct.pack("<II", 0, 3)
    with raises(ProgramError, "program is inconsistent: IndexError in its header: list index out of range"):
        parse(file_of(HEADER, bytes(wrong)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-3, 60) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["image", "input", "const", "uops", "1", 10**4000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.text(max_size=4) | st.sampled_from(["name", "kind", "size", "data", "LOG_BLOCK"]), inner, max_size=4),
    max_leaves=6,
)


@st.composite
def headers(draw: st.DrawFn) -> object:
    """The good header with some values replaced, anywhere in it, by any JSON."""
    header = json.loads(json.dumps(HEADER))
    for _ in range(draw(st.integers(1, 3))):
        at: object = header
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = draw(st.sampled_from(keys))
            if not (isinstance(at[key], dict | list) and at[key]) or draw(st.booleans()):
                at[key] = draw(JSON)
                break
            at = at[key]
    return header


def read_or_refuse(data: bytes) -> None:
    """Any bytes are a program, which its own file gives back, or a `ProgramError`."""
    try:
        program = parse(data)
    except ProgramError:
        return
    assert parse(dump(program)) == program


@given(headers() | JSON, st.just(PAYLOAD) | st.binary(max_size=80))
@example(HEADER | {"config": []}, PAYLOAD)
@example(HEADER | {"insns": 1e400}, PAYLOAD)
@example(HEADER | {"insns": 10**4299}, PAYLOAD)
@example(HEADER | {"buffers": [{"name": [], "kind": [], "size": "3", "data": {}}]}, PAYLOAD)
def test_any_header_with_a_right_checksum_is_a_program_or_refused(header, payload):
    read_or_refuse(file_of(header, payload))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_program_or_refused(data):
    read_or_refuse(data)
    read_or_refuse(MAGIC + data)
    body = MAGIC + struct.pack("<I", 1) + data
    read_or_refuse(body + hashlib.sha256(body).digest())
    read_or_refuse(file_of(data, b""))
    read_or_refuse(file_of(HEADER, data))


def test_a_file_is_written_and_read(tmp_path):
    path = tmp_path / "a.vta"
    save(PROGRAM, path)
    assert path.read_bytes() == dump(PROGRAM)
    assert load(path) == PROGRAM
    assert load(str(path)) == PROGRAM
    assert os.listdir(tmp_path) == ["a.vta"]


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    save(PROGRAM, tmp_path / "a.vta")
    assert (tmp_path / "a.vta").stat().st_mode == plain.stat().st_mode


def test_writing_replaces_what_was_there(tmp_path):
    path = tmp_path / "a.vta"
    path.write_bytes(b"old, and longer than the new one" * 100)
    save(PROGRAM, str(path))
    assert load(path) == PROGRAM
    assert os.listdir(tmp_path) == ["a.vta"]


def test_a_name_as_long_as_the_file_system_allows_is_written(tmp_path):
    path = tmp_path / ("a" * 255)
    save(PROGRAM, path)
    assert load(path) == PROGRAM


def test_what_is_saved_is_a_program():
    with pytest.raises(ProgramError, match=r"^what is saved is 'a.vta' and must be a Program: save\(program, path\)$"):
        save("a.vta", PROGRAM)


def test_a_device_is_written_to_and_stays_one():
    save(PROGRAM, "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_a_wrong_file_is_named(tmp_path):
    path = tmp_path / "a.vta"
    path.write_bytes(b"")
    with raises(ProgramError, f"program file {str(path)!r} … not a vtakit program file … (its first bytes are missing)"):
        load(path)


def test_an_unreadable_path_is_refused(tmp_path):
    missing = tmp_path / "missing.vta"
    with raises(ProgramError, f"cannot read program file {str(missing)!r}: No such file or directory"):
        load(missing)
    with raises(ProgramError, f"cannot read program file {str(tmp_path)!r}: Is a directory"):
        load(tmp_path)
    with raises(ProgramError, "cannot read program file 'a\\x00b': embedded null byte"):
        load("a\0b")
    with raises(FileError, f"cannot read DRAM image {str(missing)!r}: No such file or directory"):
        read_bytes(missing, "DRAM image")


def test_an_unwritable_path_is_refused(tmp_path):
    nowhere = tmp_path / "no" / "a.vta"
    with raises(FileError, f"cannot write program file {str(nowhere)!r}: No such file or directory"):
        save(PROGRAM, nowhere)
    with raises(FileError, f"cannot write program file {str(tmp_path)!r}: Is a directory"):
        save(PROGRAM, tmp_path)
    with raises(FileError, "cannot write program file 'a\\x00b': embedded null byte"):
        save(PROGRAM, "a\0b")
    below_a_file = tmp_path / "file" / "a.vta"
    (tmp_path / "file").write_bytes(b"")
    with raises(FileError, f"cannot write program file {str(below_a_file)!r}: Not a directory"):
        save(PROGRAM, below_a_file)
    assert sorted(os.listdir(tmp_path)) == ["file"]


def full_disk(path, data):
    """Writing to a disk that is full after a few bytes."""
    with path.open("wb") as stream:
        stream.write(data[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(code):
    def raising(*args, **kwargs):
        raise OSError(code, os.strerror(code))
    return raising


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("step", ["write", "replace", "chmod", "interrupt"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, existing, step):
    path = tmp_path / "a.vta"
    if existing:
        path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr(Path, "write_bytes", full_disk)
        elif step == "interrupt":
            def interrupted(*args):
                raise KeyboardInterrupt
            patch.setattr(Path, "replace", interrupted)
        else:
            patch.setattr(Path, step, fail(errno.ENOSPC))
        if step == "interrupt":
            with pytest.raises(KeyboardInterrupt):
                save(PROGRAM, path)
        else:
            with raises(FileError, f"cannot write program file {str(path)!r}: No space left on device"):
                save(PROGRAM, path)
    assert os.listdir(tmp_path) == (["a.vta"] if existing else [])
    if existing:
        assert path.read_bytes() == b"old"


def test_bytes_of_any_kind_are_written(tmp_path):
    write_bytes(tmp_path / "a", bytearray(b"abc"), "DRAM image")
    assert (tmp_path / "a").read_bytes() == b"abc"
    with raises(FileError, f"cannot write DRAM image {str(tmp_path / 'b' / 'a')!r}: No such file or directory"):
        write_bytes(tmp_path / "b" / "a", b"", "DRAM image")


def test_the_symbol_of_the_micro_ops_is_number_zero():
    load_uop = encode(DEFAULT, "load", memory_type=0)
    program = Program(config=DEFAULT, insns=(load_uop,), relocations=(Relocation(0, UOPS),))
    assert parse(dump(program)).relocations == (Relocation(0, UOPS),)
    assert dump(program)[-32 - 8 : -32] == bytes(8)
