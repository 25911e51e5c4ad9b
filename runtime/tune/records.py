"""Records of trials: one append-only file of JSON lines.

A line is an object with the schema's version, a kind ("trial", or "network": what a whole network takes), the task's key, the
decisions, the cost, and the versions that it is true for. A line that a crash has torn is left out when the file is read, and
ended before the next is written. Files are merged by putting their lines together.
"""

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Self

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.base.reading import read_bytes
from vtakit.base.writing import write_bytes
from vtakit.compiler.tune.task import TuneError

SCHEMA = 1
SHIPPED = "shipped"  # the name of the package's own records, in place of a path
_WORD = "vtakit_record"
MOST_BYTES = 1 << 30
_SOURCES = ("compiler/arith", "compiler/codegen", "compiler/graph", "compiler/ir", "compiler/lower", "compiler/nn",
            "compiler/passes", "compiler/schedule", "hw", "sim/cycle")  # decide a program and its cost


def place_of(given: str | os.PathLike[str]) -> Path:
    """Return the path of records that are given by a path, or by `SHIPPED`, a string, for those of this package.

    benchmarks/shipped_records.py makes them. A path of that name is "./shipped", or a Path.
    """
    return Path(__file__).with_name("shipped.jsonl") if given == SHIPPED else Path(given)


@cache
def code_version() -> str:
    """Return a digest of the sources that decide programs and their costs."""
    digest, root = hashlib.sha256(), Path(vtakit.__file__).parent
    for folder in _SOURCES:
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Return the versions that a record is true for."""
    return {"vtakit": vtakit.__version__, "code": code_version()}


def digest_of(key: Mapping[str, Any]) -> str:
    """Return text that names a key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line.

    kind      : "trial" of a task, or "network" for the cost of a whole network, with decisions by layer
    task      : name for people
    key       : what decides the cost
    decisions : of the candidate
    cost      : in the unit; None for a failure, whose reason is `error`
    default   : cost of a network without decisions
    search, seed, trial : how the candidate was found
    versions  : that it is true for
    """

    kind: str = "trial"
    task: str
    key: Mapping[str, Any]
    decisions: Mapping[str, Any]
    cost: float | None
    spread: float = 0.0
    default: float | None = None
    unit: str = "cycles"
    error: str = ""
    seconds: float = 0.0
    search: str = ""
    seed: int = 0
    trial: int = 0
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_line(self) -> bytes:
        """Return the line, with its end."""
        fields_ = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({_WORD: SCHEMA, **fields_}, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes, where: str) -> Self:
        """Read a line. Raises TuneError for one that is no record, or of another schema."""
        try:
            data = json.loads(line)
            schema = data.pop(_WORD)
        except (ValueError, KeyError, AttributeError, TypeError):
            raise TuneError(f"{where} is no record of the tuner: {line[:40].decode(errors='replace')!r}; `vtakit tune --records` "
                            "writes such files") from None
        if schema != SCHEMA:
            raise TuneError(f"{where} has schema {schema!r:.20}, and this version reads {SCHEMA}: tune anew, into another file")
        try:
            found = cls(**data)
        except TypeError as error:
            raise TuneError(f"{where} is damaged: {error}") from None
        for names, right in _FIELDS:
            for name in names:
                if not right(value := getattr(found, name)):
                    raise TuneError(f"{where} is damaged: its {name} is {value!r:.40}")
        return found

    @property
    def digest(self) -> str:
        """Text that names the task."""
        return digest_of(self.key)


def _is_cost(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FIELDS: tuple[tuple[tuple[str, ...], Callable[[object], bool]], ...] = (
    (("kind", "task", "unit", "error", "search"), lambda value: isinstance(value, str)),
    (("key", "decisions", "versions"), lambda value: isinstance(value, Mapping)),
    (("cost", "default"), _is_cost), (("seed", "trial"), _is_count),
    (("spread", "seconds"), lambda value: value == 0 or (value is not None and _is_cost(value))),
)


class Records:
    """Contents of a file of records, in its order.

    torn : whether the last line was cut off, and left out
    """

    def __init__(self, records: Iterable[Record] = (), torn: bool = False) -> None:
        self.torn = torn
        self._all = [*records]
        self._by_task: dict[str, list[Record]] = {}
        for each in self._all:
            self._by_task.setdefault(each.digest, []).append(each)

    @classmethod
    def read(cls, path: str | Path, *, missing_ok: bool = False) -> Self:
        """Read a file. Raises TuneError for a line that is no record, and VtakitError for a file that cannot be read.

        missing_ok : whether a file that does not exist holds no records
        """
        path = Path(path)
        if missing_ok and not path.exists():
            return cls()
        data = read_bytes(path, "the file of records", MOST_BYTES)
        *lines, last = data.split(b"\n")
        found = [Record.parse(line, f"{str(path)!r}, line {at}") for at, line in enumerate(lines, 1) if line.strip()
                 and not _is_torn(line)]
        if last.strip() and not lines:
            Record.parse(last, f"{str(path)!r}, line 1")  # a file without a whole line: say what it is
        return cls(found, torn=bool(last.strip()))

    def __iter__(self) -> Iterator[Record]:
        return iter(self._all)

    def of(self, key: Mapping[str, Any], kind: str = "trial") -> list[Record]:
        """Return the records of a key, of all versions."""
        return [each for each in self._by_task.get(digest_of(key), []) if each.kind == kind]

    def best(self, key: Mapping[str, Any]) -> Record | None:
        """Return the cheapest trial of a task: of this version's records if there are any, else of others."""
        found = [each for each in self.of(key) if each.cost is not None]
        own = [each for each in found if each.versions == versions()]
        return min(own or found, key=lambda each: each.cost or 0.0, default=None)


def _is_torn(line: bytes) -> bool:
    """Return whether a line was cut off by a crash, and ended by a later session."""
    return line.endswith(_TORN)


_TORN = b"\x00"


class Writer:
    """Appends records to a file, each whole and on the disk before the next; other processes may append to it too.

    Raises VtakitError where it cannot be written, such as on a full disk.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self._path.open("ab+", buffering=0)
        except OSError as error:
            raise VtakitError(f"the file of records {str(path)!r} cannot be written: {error.strerror}") from None

    def add(self, record: Record) -> None:
        """Append a record."""
        line = record.to_line()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                end = self._file.seek(0, os.SEEK_END)
                if end:
                    self._file.seek(end - 1)
                    if self._file.read(1) != b"\n":
                        line = _TORN + b"\n" + line
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:]) or 0
                os.fsync(self._file.fileno())
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise VtakitError(f"the file of records {str(self._path)!r} cannot be written: {error.strerror}; what it holds "
                              "stays, and the same command goes on from there") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def merge(paths: Iterable[Path], output: Path) -> tuple[int, int]:
    """Write the different records of files into one. Returns their number, and how many were doubles."""
    lines: dict[bytes, None] = {}
    count = 0
    for path in paths:
        for record in Records.read(path):
            lines[record.to_line()] = None
            count += 1
    write_bytes(output, b"".join(lines), "the records")
    return len(lines), count - len(lines)
