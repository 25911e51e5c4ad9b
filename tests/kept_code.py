"""Cache of machine code between the processes of a run of the tests, and between runs.

The key of an entry is the hash of the LLVM IR, the target, LLVM's version, and the sources that call LLVM. In CI the cache is
that of one run. A test of LLVM itself calls `vtakit.compiler.codegen.llvm.passes.machine_code`, which is not memoized.
"""

import hashlib
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock

import llvmlite
from llvmlite.binding import llvm_version_info

from vtakit.cache.place import cache_folder
from vtakit.cache.trust import distrust, make_private
from vtakit.compiler.codegen.llvm import compile as compiling
from vtakit.compiler.codegen.llvm import passes
from vtakit.compiler.codegen.llvm import target as targets
from vtakit.compiler.codegen.llvm.target import Target

LEAST_SECONDS = 0.005  # that LLVM took: less is not worth a look
MOST_BYTES = 256 << 20
DAY_SECONDS = 86_400
PATIENCE_SECONDS = 10  # for other processes that write


class KeptCode:
    """`passes.machine_code`, memoized in an SQLite database. Errors of the database count as a miss."""

    def __init__(self, path: Path) -> None:
        self.lock = Lock()
        self.rows = sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
        self.rows.execute("PRAGMA journal_mode = WAL")
        self.rows.execute("PRAGMA synchronous = OFF")  # a damaged database is as good as none
        self.rows.execute("CREATE TABLE IF NOT EXISTS code (key TEXT PRIMARY KEY, used REAL, made BLOB, sum BLOB)")
        self.sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (passes, targets)]

    def __call__(self, text: str, target: Target, to: str) -> bytes:
        parts = (llvmlite.__version__, llvm_version_info, *self.sources, target.triple, target.cpu, target.features, to, text)
        key = hashlib.sha256(repr(parts).encode()).hexdigest()
        for made, digest in self._run("SELECT made, sum FROM code WHERE key = ?", key):
            if hashlib.sha256(made).digest() == digest:
                self._run("UPDATE code SET used = ? WHERE key = ? AND used < ?", time.time(), key, time.time() - DAY_SECONDS)
                return bytes(made)
        begin = time.process_time()
        made = passes.machine_code(text, target, to)
        if time.process_time() - begin >= LEAST_SECONDS:
            self._run("INSERT OR REPLACE INTO code VALUES (?, ?, ?, ?)", key, time.time(), made, hashlib.sha256(made).digest())
        return made

    def prune(self, most_bytes: int = MOST_BYTES) -> None:
        """Delete the least recently used entries until the others have at most so many bytes."""
        totals = "SELECT key, SUM(LENGTH(made)) OVER (ORDER BY used DESC) AS total FROM code"
        self._run(f"DELETE FROM code WHERE key IN (SELECT key FROM ({totals}) WHERE total > ?)", most_bytes)

    def _run(self, command: str, *values: object) -> list[tuple[bytes, bytes]]:
        with self.lock, suppress(sqlite3.Error):
            return self.rows.execute(command, values).fetchall()
        return []


def keep() -> KeptCode | None:
    """Make the compiler use a cache in the user's cache folder, and return it; None if the folder cannot be used."""
    folder = cache_folder("tests")
    try:
        make_private(folder)
        if distrust(folder):
            return None
        kept = KeptCode(folder / "llvm.sqlite")
    except (OSError, sqlite3.Error):
        return None
    compiling.machine_code = kept
    return kept
