"""Run the README in a root that has nothing but Debian, python3, python3-venv, g++ and make.

    python tests/installs/clean_root.py                            all parts; an hour or two
    python tests/installs/clean_root.py --parts demo,readme        make demo, and every fenced example of the README
    python tests/installs/clean_root.py --parts installs --only core,sim
    python tests/installs/clean_root.py --parts test --tests tests/cache

debootstrap makes the root, once in DIR of --base and anew in a temporary folder without; each run changes a copy. The tracked
files of the clone are copied in, without git. Parts run by chroot, as root, with mounts of their own. What this machine's pip
needs to find packages (its settings, folders of packages, certificates) is handed in while it runs. Needs root, debootstrap and
unshare.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from installs.wheels import copy

ROOT = Path(__file__).parents[2]
PACKAGES = ("python3", "python3-venv", "g++", "make")
PIP_FILES = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts")
CERTIFICATES = "/etc/ssl/certs"
CLONE = "/root/vtakit"  # the package's name, as git clone makes it
ROOT_SECONDS = 1800
LIMITS = {"demo": 1800, "readme": 1800, "beside": 300, "installs": 5400, "test": 10800}


def main() -> int:
    """Parse the arguments, run the parts and print a table; status 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python tests/installs/clean_root.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ", ".join(LIMITS)
    parser.add_argument("--parts", metavar="PART,…", default=",".join(LIMITS), help=f"which of {known} (default: all)")
    parser.add_argument("--only", metavar="JOB,…", default="", help="of the part installs: which jobs")
    parser.add_argument("--tests", metavar="ARGS", default="", help="of the part test: arguments of pytest, instead of make test")
    parser.add_argument("--base", type=Path, metavar="DIR", help="where the pristine root is, or is made")
    parser.add_argument("--suite", default="bookworm", help="release of Debian (default: bookworm)")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where its packages are")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of each part, instead of its own")
    args = parser.parse_args()
    parts = args.parts.split(",")
    if unknown := set(parts) - set(LIMITS):
        parser.error(f"--parts: unknown parts {', '.join(sorted(unknown))}; known: {known}")
    if lacking := [tool for tool in ("debootstrap", "unshare", "chroot") if shutil.which(tool) is None]:
        parser.error(f"needs {', '.join(lacking)}: apt install debootstrap util-linux coreutils")
    if os.geteuid():
        parser.error("needs root, for chroot and mounts")
    with tempfile.TemporaryDirectory(prefix="clean_root.", dir=args.base.parent if args.base else None) as name:
        base = args.base or Path(name) / "base"
        if not (base / "etc").exists():
            make_root(base, args.suite, args.mirror)
        root = Path(name) / "root"
        subprocess.run(["cp", "-a", str(base), str(root)], check=True, timeout=ROOT_SECONDS)
        copy(ROOT, root / CLONE[1:])
        binds = hand_in(root)
        done = [(part, *run_part(part, root, binds, args)) for part in parts]
    print(f"\n{'part':10}{'seconds':>10}  result")
    for part, seconds, status in done:
        print(f"{part:10}{seconds:10.0f}  {status or 'fine'}")
    return int(any(status for _, _, status in done))


def make_root(base: Path, suite: str, mirror: str) -> None:
    """Make a root with the packages that the README names, and nothing else."""
    print(f"making {base} with debootstrap …", flush=True)
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(base), mirror]
    done = subprocess.run(words, capture_output=True, text=True, timeout=ROOT_SECONDS, check=False)
    if done.returncode:
        shutil.rmtree(base, ignore_errors=True)
        raise SystemExit(f"debootstrap failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def hand_in(root: Path) -> list[str]:
    """Copy what names servers and configures pip into the root; return the folders that must be seen there."""
    for name in (*NETWORK_FILES, *PIP_FILES):
        source = Path(name).expanduser()
        if source.exists():
            target = root / ("root" + name[1:] if name.startswith("~") else name[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=60)
    named = {match for match in re.findall(r"(?:file://)?(/[^\s'\",]+)", re.sub(r"https?://\S+", "", done.stdout))}
    folders = {path if path.is_dir() else path.parent for path in map(Path, named) if path.exists()}
    folders = {path.parent if path.name == "simple" else path for path in folders}  # an index, whose packages lie beside it
    return sorted({str(folder.resolve()) for folder in folders} | {CERTIFICATES})


def run_part(part: str, root: Path, binds: list[str], args: argparse.Namespace) -> tuple[float, str]:
    """Run a part in the root; return its seconds and what is wrong, or an empty string."""
    only = f" --only {args.only}" if args.only else ""
    tested = f"make .venv/.test && .venv/bin/python -m pytest {args.tests}" if args.tests else "make test"
    python, examples = f"{CLONE}/.venv/bin/python", f"{CLONE}/tests/installs/examples.py {CLONE}/README.md"
    script = {
        "demo": "make demo",
        "readme": f"make .venv/.demo && mkdir -p /tmp/readme && cd /tmp/readme && {python} {examples}",
        "beside": f"make .venv/.demo && cd .. && echo 'import vtakit; print(vtakit.lower)' > it.py && {python} it.py",
        "installs": f"python3 tests/installs --readme{only}",
        "test": tested,
    }[part]
    print(f"== {part}: {script}", flush=True)
    inside = [
        *(f"mkdir -p {root}{path}; mount --bind -o ro {path} {root}{path}" for path in binds),
        f"mount -t tmpfs tmpfs {root}/dev/shm",
        f"exec chroot {root} /bin/bash -ec \"$SCRIPT\"",
    ]
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    around = pip | {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
        "SCRIPT": f"cd {CLONE} && {script}",
    }
    begun, limit = time.monotonic(), args.limit or LIMITS[part]
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc"]
    words += ["/bin/bash", "-ec", "\n".join(inside)]
    try:
        status = subprocess.run(words, env=around, timeout=limit, check=False).returncode
        told = f"FAILED: status {status}" if status else ""
    except subprocess.TimeoutExpired:
        told = f"FAILED: not done within {limit:.0f} s"
    print(f"== {part}: {json.dumps(told or 'fine')}", flush=True)
    return time.monotonic() - begun, told


if __name__ == "__main__":
    sys.exit(main())
