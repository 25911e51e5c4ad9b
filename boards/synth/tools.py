"""The tools of synthesis, all of which PyPI has."""

from importlib.metadata import PackageNotFoundError, version

from vtakit.hw.isa import process


def find_tool(executable: str, package: str) -> str:
    """Path of the executable that `package` installs.

    Raises `VtakitError` with the command that installs it.
    """
    return process.find_tool(executable, "synthesis", f"pip install {package}")


def tool_version(package: str) -> str:
    """The installed version of a package, or 'unknown' for a tool that came another way."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
