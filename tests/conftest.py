"""Settings of every test."""

import gc
import os
import signal
import tempfile
from importlib.util import find_spec

import pytest
from hypothesis import settings
from kept_code import KeptCode, keep

from vtakit.cache.place import VARIABLE, is_off

IN_CI = os.environ.get("CI") == "true"
SHARES = "VTAKIT_TESTS_SHARE_CACHE" in os.environ  # .ci/run has made a cache folder for this run and what goes before it
settings.register_profile("vtakit", deadline=None, derandomize=IN_CI)
settings.load_profile("vtakit")
os.environ.setdefault(VARIABLE, "off")  # what a test compiles is compiled by what it tests
os.environ.setdefault("VTAKIT_RTL_TRAINING", "off")  # most models run for a second or two
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it sends to the background; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
# NumPy's products are small here. Its further threads would wait for the next one in a loop, several times as long as they work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

FRESH = pytest.StashKey[tempfile.TemporaryDirectory[str]]()  # the cache of a run in CI
KEPT = pytest.StashKey[KeptCode]()  # LLVM's machine code

HAS_TORCH = find_spec("torch") is not None  # an extra of 800 MB, which `make test` does not bring
collect_ignore = [] if HAS_TORCH else [
    "compiler/frontend/test_torch.py", "compiler/frontend/test_torch_files.py", "compiler/frontend/test_torch_quantized.py",
    "runtime/test_torch_onnx.py", "runtime/torch_backend", "compiler/frontend/test_torch_operators.py",
]


def pytest_report_header() -> str:
    """What is not tested for lack of a package."""
    return "" if HAS_TORCH else "torch is not installed: the tests of PyTorch programs are left out"


def pytest_configure(config: pytest.Config) -> None:
    """Keep models in Verilator, the simulators' machine code, and LLVM's of each module in a cache folder.

    In CI the run has a cache folder of its own, which its workers share and which goes with it, so that it builds every model and
    has LLVM translate every module, once; .ci/run gives it one that `make demo` has used. Elsewhere it is the user's. Entries are
    named by the hash of all that decides them, so that a change builds what it changes and nothing else.
    """
    if IN_CI and not SHARES and "PYTEST_XDIST_WORKER" not in os.environ:
        config.stash[FRESH] = tempfile.TemporaryDirectory(prefix="vtakit.tests.", ignore_cleanup_errors=True)
        os.environ["XDG_CACHE_HOME"] = config.stash[FRESH].name
    if (kept := keep()) is not None:
        config.stash[KEPT] = kept


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the cache folder of a run in CI; elsewhere, the least recently used machine code."""
    if KEPT in config.stash and not IN_CI:
        config.stash[KEPT].prune()
    if FRESH in config.stash:
        config.stash[FRESH].cleanup()


def pytest_xdist_auto_num_workers() -> int | None:
    """With `-n auto`, start two workers where there are two processors, even if these are threads of one core.

    pytest-xdist counts cores where psutil is installed, and would start one. None leaves the number to it.
    """
    return 2 if os.cpu_count() == 2 and "PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ else None


@pytest.fixture
def keeps_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of CI, let commands take compiled models from the user's cache, as they do for users."""
    if not IN_CI and is_off():
        monkeypatch.delenv(VARIABLE)


@pytest.fixture(params=["plain", "compiled"])
def path(request: pytest.FixtureRequest) -> str:
    """Each path of the functional simulator."""
    return str(request.param)


def pytest_collection_finish() -> None:
    """Leave the hundred thousands of objects of collected tests out of every later search for garbage, and search less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of groups that share a model in Verilator, so that `-m "not rtl"` leaves them out."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and str(*group.args).startswith(("rtl", "cocotb")):
            item.add_marker("rtl")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this project's tests."""
    parser.addoption("--deep-proofs", action="store_true", help="also run the formal proofs that take minutes")
    parser.addoption(
        "--proof-patience", type=int, default=1, metavar="N", help="give each formal proof N times its time: for a busy machine"
    )
    parser.addoption("--update-cycles", action="store_true", help="rewrite the reviewed cycle counts")
    parser.addoption("--all-models", action="store_true", help="also run what needs RTL models that take minutes to build")
