"""ONNX's own backend tests, run on compiled models.

    python tests/onnx_backend.py [-j N] [--only WORD …] [--verbose] [--write]

prints how many pass, and why the others do not. A model that vtakit does not support is refused, by an error that says what it
lacks; another result than the test's own, or any other error, is a failure, and the exit status is 1. --write puts the counts
and the list of what is unsupported into docs/onnx_backend.md.
"""

import argparse
import collections
import multiprocessing
import os
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from vtakit.compiler.frontend.errors import UnsupportedError
from vtakit.runtime.onnx_backend import RefusedError, VtakitBackend

PASSED, UNSUPPORTED, WRONG = "passed", "unsupported", "wrong"
PAGE = Path(__file__).parents[1] / "docs" / "onnx_backend.md"
_NAMED = re.compile(r"(input|initializer|output|node|attribute) (\d+ )?\(?'[^']*'\)?( of node '[^']*')?")
_WIDTH = 140
_EXACT = ("test_dft_inverse", "test_dft_inverse_opset19")


@dataclass(frozen=True)
class Outcome:
    """Result of a test; `why` names the operators that are missing, the error or the difference."""

    name: str
    state: str
    why: tuple[str, ...] = ()


def _as_array(given: Any) -> Any:
    """Return a test's input as an array where it is a tensor; some are NumPy's scalars or ONNX's own tensors."""
    if isinstance(given, list):
        return [*map(_as_array, given)]
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, np.generic) else given


def cases(only: Sequence[str] = ()) -> list[TestCase]:
    """The node tests whose names contain one of some words; all if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, as the package computes what it expects
        return [case for case in load_model_tests(kind="node") if not only or any(word in case.name for word in only)]


def outcome(case: TestCase) -> Outcome:
    """Run one test."""
    model = onnx.load(Path(case.model_dir) / "model.onnx") if case.model is None else case.model
    try:
        compiled = VtakitBackend.prepare(model)
        for inputs, expected in data_of(case, model):
            found = compiled.run(inputs)
            compare(case, inputs, expected, list(found))
    except RefusedError as error:
        why = error.__cause__
        nodes = tuple(why.nodes) if isinstance(why, UnsupportedError) else (f"{type(why).__name__}: {why}",)
        return Outcome(case.name, UNSUPPORTED, nodes)
    except AssertionError as error:
        return Outcome(case.name, WRONG, (" ".join(str(error).split())[:400],))
    except Exception:
        return Outcome(case.name, WRONG, (traceback.format_exc(limit=-3),))
    return Outcome(case.name, PASSED)


def compare(case: TestCase, inputs: list[Any], expected: list[Any], found: list[Any]) -> None:
    """Raise AssertionError unless results are a test's own, but for two kinds of tests.

    Bernoulli draws numbers: types, shapes and that they are 0 or 1 is compared. What NumPy expects of the inverse transforms is
    rounded to float32 on the way, by more than the test's tolerance allows: results are compared with the transform in float64.
    """
    if case.name.startswith("test_bernoulli"):
        for got, want in zip(found, expected, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            assert np.isin(got, (0, 1)).all(), got
        return
    if case.name in _EXACT:
        x = inputs[0][..., 0] + 1j * inputs[0][..., 1].astype(float)
        y = np.fft.ifft(x, axis=1)
        expected = [np.stack([y.real, y.imag], -1).astype(expected[0].dtype)]
    check_alike(expected, found, case)


def check_alike(expected: Sequence[Any], found: Sequence[Any], case: TestCase) -> None:
    """Raise AssertionError unless results are what a test expects; ONNX's own check takes no sequences with scalars in them."""
    assert len(expected) == len(found), f"{len(found)} results, {len(expected)} are expected"
    for want, got in zip(expected, found, strict=True):
        assert isinstance(want, list) == isinstance(got, list), f"{type(got).__name__}, {type(want).__name__} is expected"
        assert (want is None) == (got is None), f"{got}, {want} is expected"
        if isinstance(want, list):
            check_alike(want, got, case)
        elif want is not None:
            Runner.assert_similar_outputs([want], [got], case.rtol, case.atol)


def data_of(case: TestCase, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs of a test."""
    if case.data_sets is not None:
        yield from (([*map(_as_array, inputs)], [*map(_as_array, outputs)]) for inputs, outputs in case.data_sets)
        return
    raise AssertionError(f"{case.name} has no data")


_CASES: list[TestCase] = []


def _numbered(number: int) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(_CASES[number])


def run_all(jobs: int, only: Sequence[str] = ()) -> list[Outcome]:
    """Run the tests whose names contain one of some words, in several processes; failures are printed as they are found."""
    os.environ["VTAKIT_CACHE"] = "off"  # each is compiled by what is tested
    _CASES[:] = cases(only)
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=100) as pool:
        found = []
        for each in pool.imap(_numbered, range(len(_CASES)), chunksize=4):
            if each.state == WRONG:
                print(f"WRONG {each.name}: {each.why[0]}", flush=True)
            found.append(each)
        return found


def page(outcomes: Sequence[Outcome]) -> str:
    """The page of the documentation: how many tests pass, and the others by what they lack."""
    counts = collections.Counter(each.state for each in outcomes)
    lacking: dict[str, list[str]] = collections.defaultdict(list)
    for each in outcomes:
        if each.state == UNSUPPORTED:
            for why in dict.fromkeys(_short(why) for why in each.why):
                lacking[why].append(each.name.removeprefix("test_"))
    summary = (
        f"Of the {len(outcomes):,} node tests of onnx {onnx.__version__}, {counts[PASSED]:,} pass, {counts[UNSUPPORTED]:,} are "
        f"refused, because the model needs what vtakit does not support, and {counts[WRONG]:,} fail."
    )
    lines = [
        "# ONNX's backend tests", "", summary, "",
        "`python tests/onnx_backend.py -j 2 --write` runs them and writes this page. Of `bernoulli` types, shapes and",
        "that results are 0 or 1 is compared; `dft_inverse` is compared with NumPy's transform in float64: that in float32,",
        "which the tests have, is further from it than their own tolerance.", "", "## What the refused ones need", "",
        "| what | tests |", "|---|---:|",
        *[f"| {why} | {len(names)} |" for why, names in sorted(lacking.items(), key=lambda item: (-len(item[1]), item[0]))],
        "", "## The refused tests", "",
    ]
    for why, names in sorted(lacking.items()):
        lines += [f"**{why}**:", *textwrap.wrap(", ".join(sorted(names)), _WIDTH, break_on_hyphens=False), ""]
    wrong = sorted(each.name.removeprefix("test_") for each in outcomes if each.state == WRONG)
    if wrong:
        lines += ["## The failing tests", "", *textwrap.wrap(", ".join(wrong), _WIDTH), ""]
    return "\n".join(lines)


def _short(why: str) -> str:
    """A reason without the names of one model, as a table has it."""
    text = _NAMED.sub(lambda found: f"an {found[1]}" if found[1][0] in "aio" else f"a {found[1]}", why)
    return text.partition("; vtakit has")[0].partition(": give the value")[0].replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=1, metavar="N", dest="jobs")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args()
    outcomes = run_all(args.jobs, args.only)
    counts = collections.Counter(each.state for each in outcomes)
    missing = collections.Counter(why for each in outcomes if each.state == UNSUPPORTED for why in each.why)
    for why, count in missing.most_common():
        print(f"{count:5}  {why}")
    for each in outcomes:
        if args.verbose:
            print(each.state, each.name, *each.why)
    if args.write:
        PAGE.write_text(page(outcomes))
    print(", ".join(f"{count} {state}" for state, count in counts.most_common()), f"of {len(outcomes)}")
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
