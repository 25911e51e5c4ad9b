"""Place and route with one seed, in a process of its own: `python -m vtakit.boards.bitstream.place_seed FOLDER COMMAND…`.

FOLDER appears only when its results are whole; what did not come to an end is left in FOLDER.part and begun anew. A seed that
cannot be routed is a result too: the file `failed` in FOLDER.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FAILED = "failed"
LOG = "nextpnr.log"


def main(folder: Path, command: list[str]) -> None:
    """Run the command in a folder beside `folder`, and rename that when it has ended."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    done = subprocess.run([*command, "--log", LOG], cwd=part, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or done.stdout.splitlines()[-1:]
        (part / FAILED).write_text(" / ".join(lines[:3]) or f"status {done.returncode}")
    part.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
