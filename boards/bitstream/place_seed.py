"""Place and route with one seed, in a process of its own: `python -m vtakit.boards.bitstream.place_seed FOLDER COMMAND…`.

FOLDER appears only when its results are whole; what did not come to an end is left in FOLDER.part and begun anew. A seed that
cannot be routed is a result too: the file `failed` in FOLDER. A command that was killed, or whose disk is full, is none: it
fails, and is run again when it is asked for again.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

FAILED = "failed"
LOG = "nextpnr.log"
_PROBE_BYTES = 1 << 16


def main(folder: Path, command: list[str]) -> str:
    """Run the command in a folder beside `folder`, and rename that when it has ended.

    Returns what kept it from a result, if anything. One that a killed `vtakit bitstream` left running is waited for, and its
    result taken.
    """
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        return "" if folder.exists() else _place(folder, command)


def _place(folder: Path, command: list[str]) -> str:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    done = subprocess.run([*command, "--log", LOG], cwd=part, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode < 0:
        return f"{folder.name}: the tool was ended by signal {-done.returncode}, perhaps for lack of memory"
    if trouble := cut_off(part):
        return f"{folder.name}: {trouble}"
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or done.stdout.splitlines()[-1:]
        (part / FAILED).write_text(" / ".join(lines[:3]) or f"status {done.returncode}")
    part.rename(folder)
    return ""


def cut_off(folder: Path) -> str:
    """Which of a tool's files in a folder is not whole, and that its disk is full; empty: none and it is not."""
    for path in sorted(folder.iterdir()):
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".config" and not path.read_bytes().endswith(b"\n"):
                raise ValueError
        except ValueError:
            return f"{path} is cut off: is the disk full?"
    try:
        with (folder / "probe").open("wb") as probe:  # tools may not say that a write failed
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return f"{folder}: {error.strerror}"
    finally:
        (folder / "probe").unlink(missing_ok=True)
    return ""


if __name__ == "__main__":
    if said := main(Path(sys.argv[1]), sys.argv[2:]):
        sys.exit(f"ERROR: {said}")
