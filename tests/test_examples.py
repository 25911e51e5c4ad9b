"""The examples run, and the files shipped with them are fresh."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from support import EXAMPLES, module

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.file import load
from vtakit.hw.params import CoreParams
from vtakit.sim.rtl.build import library

pytestmark = pytest.mark.usefixtures("keeps_models")


def test_the_shipped_convolution_is_fresh():
    assert load(EXAMPLES / "conv2d.vta") == module("conv2d").program(), "rewrite it: python examples/conv2d.py --write"


ARGUMENTS = {"networks": ["dqn", "mobilenet_v2", "--size", "32"]}  # what keeps an example short
OF_ITS_OWN = ("serving", "vta_networks")  # examples with tests elsewhere or below


def run(path, *words, cwd=None) -> str:
    done = subprocess.run([sys.executable, path, *words], capture_output=True, text=True, timeout=300, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", [path for path in sorted(EXAMPLES.glob("*.py")) if path.stem not in OF_ITS_OWN],
                         ids=lambda path: path.stem)
def test_every_example_runs(path):
    run(path, *ARGUMENTS.get(path.stem, ()))


def test_a_network_runs_on_the_accelerator_in_one_launch():
    """tests/compiler/vta/test_published.py runs ResNet-18, in one launch and with the same bytes."""
    text = run(EXAMPLES / "vta_networks.py", "mobilenet_v1", "--size", "32")
    head, rest = text.splitlines()  # nothing is left to the processor
    assert head.startswith("MobileNet v1: 29 layers on the accelerator in 1 launch, ")
    assert rest.startswith("  fc [1, 1000]: the same bytes as this processor; ")


def test_the_digits_are_learnt_and_read_by_the_accelerator(tmp_path):
    """Two rounds of training, and few images on the RTL of the tiny configuration; what the page says is what was printed."""
    library(CoreParams(cfg=NAMED["tiny"]))  # so that nobody says that it is built
    text = run(EXAMPLES / "digits", "--epochs", "2", "--config", "tiny", "--batch", "4", "--sample", "8", cwd=tmp_path)
    on_float, on_fsim, on_rtl = (
        float(text.partition(f"{what}: ")[2].partition("%")[0])
        for what in ("float32 on this processor", "int8 on fsim", "int8 on rtl")
    )
    assert on_float > 85
    assert on_fsim >= on_float - 0.5
    assert "fsim: the same bytes as NumPy for all 500 images\n" in text
    assert "rtl: the same bytes as NumPy for all 8 images\n" in text
    folder = tmp_path / "build" / "digits"
    assert sorted(file.name for file in folder.iterdir()) == ["digits.html", "digits.onnx", "digits.vtak", "digits_int8.onnx"]
    page = (folder / "digits.html").read_text()
    assert all(f">{right}%</td>" in page for right in (on_float, on_fsim, on_rtl))
    assert page.count(", read as ") == text.count(", read as ") == round(500 * (1 - on_fsim / 100))
    cycles = text.partition("rtl: ")[2].partition("rtl: ")[2].partition(" cycles")[0]
    assert f"<dd>{cycles}</dd>" in page
    assert "<h2>Timeline</h2>" in page


def test_a_folder_that_the_digits_cannot_make_is_told(tmp_path):
    (tmp_path / "file").touch()
    words = [sys.executable, EXAMPLES / "digits", "--folder", tmp_path / "file" / "out"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("", f"digits: cannot make the folder '{tmp_path / 'file' / 'out'}': Not a directory\n")
    assert done.returncode == 1


def test_the_digits_stop_at_bytes_that_differ_and_at_accuracy_that_is_lost(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "digits")
    main, pages = module("digits/__main__"), module("digits/pages")
    labels = np.arange(10)
    logits = np.eye(10, dtype=np.float32)
    right = pages.Reading("fsim", "int8", logits, labels)
    main.check_bytes(right, logits.copy())
    changed = logits.copy()
    changed[3, 4] = -0.0  # equal, and other bytes
    with pytest.raises(SystemExit, match=r"^fsim gives other bytes than NumPy for 1 of 10 images$"):
        main.check_bytes(right, changed)
    wrong = pages.Reading("fsim", "int8", logits[::-1], labels)
    main.check_accuracy(wrong, right)
    with pytest.raises(SystemExit, match=r"^int8 is 100.0 points less accurate than float32; 0.5 are tolerated$"):
        main.check_accuracy(right, wrong)


def slope(loss: Callable[[], float], array: np.ndarray, at: tuple[int, ...]) -> float:
    """The derivative of a loss by one element, from two values beside it."""
    kept, step = array[at], 1e-5
    array[at] = kept + step
    above = loss()
    array[at] = kept - step
    below = loss()
    array[at] = kept
    return (above - below) / (2 * step)


def test_the_gradients_of_the_digits_training_are_those_of_its_loss():
    training = module("digits/training")
    rng = np.random.default_rng(0)
    weights = {name: array.astype(np.float64) for name, array in training.initial().items()}
    images, labels = rng.random((3, 1, training.SIDE, training.SIDE)), rng.integers(0, training.CLASSES, 3)
    _, found = training.loss_and_gradients(weights, images, labels)
    assert found.keys() == weights.keys()
    for name, array in weights.items():
        for _ in range(6):
            at = tuple(int(rng.integers(extent)) for extent in array.shape)
            wanted = slope(lambda: training.loss_and_gradients(weights, images, labels)[0], array, at)
            np.testing.assert_allclose(found[name][at], wanted, rtol=1e-4, atol=1e-7)
