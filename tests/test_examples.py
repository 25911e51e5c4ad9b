"""The examples run, and the files shipped with them are fresh."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from support import EXAMPLES, module

from vtakit.hw.isa.file import load


def test_the_shipped_convolution_is_fresh():
    assert load(EXAMPLES / "conv2d.vta") == module("conv2d").program(), "rewrite it: python examples/conv2d.py --write"


ARGUMENTS = {"networks": ["dqn", "mobilenet_v2", "--size", "32"]}  # what keeps an example short


def run(path, *words, cwd=None) -> str:
    done = subprocess.run([sys.executable, path, *words], capture_output=True, text=True, timeout=300, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_runs(path):
    run(path, *ARGUMENTS.get(path.stem, ()))


def test_the_digits_are_learnt_and_read(tmp_path):
    """Two rounds of training: the page, the model and the module are there, and what the page says is what was printed."""
    text = run(EXAMPLES / "digits", "--epochs", "2", cwd=tmp_path)
    right = float(text.partition("float32 on this processor: ")[2].partition("%")[0])
    assert right > 85
    folder = tmp_path / "build" / "digits"
    assert sorted(file.name for file in folder.iterdir()) == ["digits.html", "digits.onnx", "digits.vtak"]
    page = (folder / "digits.html").read_text()
    assert f">{right}%</td>" in page
    assert page.count(", read as ") == text.count(", read as ") == round(500 * (1 - right / 100))


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
