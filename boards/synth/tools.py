"""The tools of synthesis, all of which PyPI has."""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from vtakit.base import process
from vtakit.base.errors import VtakitError

YOSYS = "pyosys"  # yosys and ABC as machine code, inside a Python package without a command of its own
_RUN = "import sys; from pyosys import libyosys; libyosys.run_pass(sys.argv[1], libyosys.Design())"


def find_tool(executable: str, package: str) -> str:
    """Path of the executable that `package` installs.

    Raises `VtakitError` with the command that installs it.
    """
    return process.find_tool(executable, "synthesis", f"pip install {package}")


def check_yosys() -> None:
    """Raise `VtakitError` with the command that installs yosys, if it is not there."""
    if find_spec(YOSYS) is None:
        raise VtakitError(f"synthesis needs the package {YOSYS}: pip install 'vtakit[fpga]'")


def run_yosys(script: str, work: Path, *, limit_seconds: float, hint: str = "") -> None:
    """Run yosys's commands, one a line, in the folder `work`, where `script.ys` and `yosys.log` are left.

    hint    what the error says behind a limit that was too short
    Raises `VtakitError` without yosys, and `ToolError` if it fails or takes longer than `limit_seconds`.
    """
    check_yosys()
    (work / "script.ys").write_text(script)
    command = [sys.executable, "-c", _RUN, "tee -q -o yosys.log script script.ys"]
    process.run_tool(command, called="yosys", work=work, limit_seconds=limit_seconds, own_log="yosys.log", hint=hint)


def tool_version(package: str) -> str:
    """The installed version of a package, or 'unknown' for a tool that came another way."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
