"""Tools are found, quoted when they fail, and never left behind: not in time, not by Ctrl-C, not by a polite kill."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import interruptible, raises, runs, wait_for

from vtakit.base.errors import VtakitError
from vtakit.base.process import ToolError, find_tool, run_tool, run_tools

PYTHON = Path(sys.executable).name
# Writes the numbers of itself and of a child, both of which would run for ever; the child does not mind being asked to end.
HANG = (
    "import os, signal, subprocess, sys; from pathlib import Path;"
    "child = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)';"
    "p = subprocess.Popen([sys.executable, '-c', child], stdout=subprocess.PIPE); p.stdout.readline();"
    "Path('pids.new').write_text(f'{os.getpid()} {p.pid}'); Path('pids.new').rename('pids'); p.wait()"
)
CALLER = (
    "import sys; from pathlib import Path; from vtakit.base.process import run_tool;"
    f"run_tool([sys.executable, '-c', {HANG!r}], work=Path.cwd(), limit_seconds=600)"
)


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def started(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def test_a_missing_tool_is_named_with_its_cure():
    with raises(VtakitError, "proving needs yowasp-nothing: pip install yowasp-nothing"):
        find_tool("yowasp-nothing", "proving", "pip install yowasp-nothing")
    with raises(VtakitError, "cannot run /nowhere/tool: No such file or directory"):
        run_tool(["/nowhere/tool"], limit_seconds=60)


def test_a_tool_gets_its_folder_its_environment_and_its_input_and_all_it_says_comes_back(tmp_path):
    program = "import os, sys; print(os.getcwd(), os.environ['WHO'], sys.stdin.read()); print('more', file=sys.stderr)"
    said = run_tool(python(program), limit_seconds=60, work=tmp_path, environment={"WHO": "me"}, given="a text")
    assert said == f"{tmp_path} me a text\nmore\n" or said == f"more\n{tmp_path} me a text\n"
    assert list(tmp_path.iterdir()) == []


def test_much_output_is_no_obstacle():
    assert len(run_tool(python("print('x' * 10_000_000)"), limit_seconds=60)) == 10_000_001


def test_a_tool_that_fails_is_quoted(tmp_path):
    with raises(ToolError, f"{PYTHON} failed with status 3: ERROR: no such bel") as failed:
        run_tool(python("print('much'); print('ERROR: no such bel'); raise SystemExit(3)"), limit_seconds=60)
    assert (failed.value.tool, failed.value.fate) == (PYTHON, "failed with status 3")
    assert failed.value.output == "much\nERROR: no such bel\n"
    (tmp_path / "own").write_text("as usual\nERROR: not to be written\n")
    with raises(ToolError, f"{PYTHON} failed with status 5: ERROR: not to be written"):
        run_tool(python("raise SystemExit(5)"), limit_seconds=60, work=tmp_path, own_log="own")
    with raises(ToolError, f"{PYTHON} failed with status 4: it said nothing"):
        run_tool(python("raise SystemExit(4)"), limit_seconds=60)


def test_of_several_tools_so_many_run_at_once_and_each_ones_output_has_its_place(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; me = Path(sys.argv[1]); me.touch(); time.sleep(0.2);"
        "print(sys.argv[1], len(list(Path.cwd().iterdir()))); me.unlink()"
    )
    said = run_tools([[*python(program), str(n)] for n in range(6)], jobs=2, limit_seconds=60, work=tmp_path)
    assert [line.split()[0] for line in said] == [str(n) for n in range(6)]
    assert {int(line.split()[1]) for line in said} <= {1, 2}


def test_the_first_tool_that_fails_ends_the_others(tmp_path):
    fails = "import time; from pathlib import Path\nwhile not Path('pids').exists(): time.sleep(0.01)\nraise SystemExit(7)"
    with raises(ToolError, f"{PYTHON} failed with status 7: it said nothing"):
        run_tools([python(HANG), python(fails), python("raise SystemExit(8)")], jobs=2, limit_seconds=600, work=tmp_path)
    assert not any(map(runs, started(tmp_path)))


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path):
    begin = time.monotonic()
    with raises(ToolError, f"{PYTHON} has not ended within 3 s; --limit gives it longer"):
        run_tool(python(HANG), work=tmp_path, limit_seconds=3, hint="--limit gives it longer")
    assert time.monotonic() - begin < 60
    assert not any(map(runs, started(tmp_path)))


def test_what_a_tool_leaves_running_is_ended_too(tmp_path):
    program = (
        "import subprocess, sys; from pathlib import Path;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); Path('pids').write_text(str(p.pid))"
    )
    run_tool(python(program), work=tmp_path, limit_seconds=60)
    assert not any(map(runs, started(tmp_path)))


def test_outside_the_main_thread_too(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_tool, python("print(5)"), limit_seconds=60).result() == "5\n"


@pytest.mark.parametrize(("number", "status"), [
    (signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP),
])
def test_an_interrupted_run_leaves_no_tool_behind(tmp_path, number, status):
    process = interruptible("-c", CALLER, cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_for((tmp_path / "pids").exists)
    os.killpg(process.pid, number)
    assert process.wait(30) == status
    assert not any(map(runs, started(tmp_path)))


def test_what_is_ignored_stays_ignored(tmp_path):
    """As of a shell's background jobs and of `nohup`."""
    caller = f"import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGHUP)]; {CALLER}"
    process = interruptible("-c", caller, cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_for((tmp_path / "pids").exists)
    for number in (signal.SIGINT, signal.SIGHUP):
        os.killpg(process.pid, number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert all(map(runs, started(tmp_path)))
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not any(map(runs, started(tmp_path)))
