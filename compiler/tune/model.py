"""The cost model: XGBoost ranks candidates by features; measurements of all tasks of a target teach it."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.reading import read_bytes
from vtakit.base.writing import write_bytes
from vtakit.compiler.tune.task import TuneError

Features = npt.NDArray[np.float32]
ROUNDS = 60
WORST = 4.0  # label of a failure, and of what takes 16 times the best: base-2 logarithms
MOST_BYTES = 1 << 26  # of a model's file
SCHEMA = 1
_PARAMETERS: dict[str, Any] = {
    "objective": "rank:pairwise", "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8, "eta": 0.3,
    "max_depth": 5, "min_child_weight": 0.1, "lambda": 1.0, "gamma": 0.0, "subsample": 0.9, "colsample_bytree": 0.8,
    "tree_method": "hist", "verbosity": 0,
}


def xgboost() -> Any:
    """Return the library. Raises TuneError, with the cure, where it is missing."""
    try:
        return import_module("xgboost")
    except ImportError:
        raise TuneError("the cost model needs XGBoost, which is not installed: pip install 'vtakit[tune]', or take a search "
                        "without a model, such as --search random") from None


class CostModel:
    """A ranking of candidates, by pairs of measurements of one task.

    seed    : of the subsampling
    threads : that XGBoost uses
    start   : rows that a saved model was trained on, which new measurements are added to
    """

    def __init__(self, seed: int = 0, threads: int = 1, start: "Samples | None" = None) -> None:
        self._library = xgboost()
        self._parameters = _PARAMETERS | {"seed": seed, "nthread": threads}
        self.samples = Samples() if start is None else start.copy()
        self._booster: Any = None
        self._fitted = 0

    @property
    def ready(self) -> bool:
        """Return whether it has been trained."""
        return self._booster is not None

    def add(self, task: str, features: Features, costs: Sequence[float | None]) -> None:
        """Add measurements of a task; None is a failure."""
        self.samples.add(task, features, costs)

    def fit(self) -> None:
        """Train on all measurements, if there are new ones of at least two candidates of a task."""
        if self.samples.count == self._fitted or not self.samples.comparable:
            return
        features, labels, groups = self.samples.arrays()
        data = self._library.DMatrix(features, label=labels, qid=groups)
        self._booster = self._library.train(self._parameters, data, num_boost_round=ROUNDS)
        self._fitted = self.samples.count

    def scores(self, features: Features) -> npt.NDArray[np.float32]:
        """Return a number for each candidate, larger for cheaper ones; all zero before there is anything to learn from."""
        self.fit()
        if self._booster is None or not len(features):
            return np.zeros(len(features), np.float32)
        found: npt.NDArray[np.float32] = self._booster.inplace_predict(features)
        return found


class Samples:
    """Measurements that a model is trained on, by task."""

    def __init__(self, rows: Mapping[str, tuple[list[Features], list[float]]] | None = None) -> None:
        self._rows: dict[str, tuple[list[Features], list[float]]] = dict(rows or {})

    def copy(self) -> "Samples":
        """Return samples of their own."""
        return Samples({task: (list(features), list(costs)) for task, (features, costs) in self._rows.items()})

    def add(self, task: str, features: Features, costs: Sequence[float | None]) -> None:
        """Add measurements of a task; None is a failure."""
        known = self._rows.setdefault(task, ([], []))
        known[0].extend(features)
        known[1].extend(np.inf if cost is None else float(cost) for cost in costs)

    @property
    def count(self) -> int:
        return sum(len(costs) for _, costs in self._rows.values())

    @property
    def comparable(self) -> bool:
        """Return whether a task has two measurements that differ."""
        return any(len(set(costs)) > 1 for _, costs in self._rows.values())

    def arrays(self) -> tuple[Features, npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return features, labels and groups: a group for each task, a label that falls by one where the cost doubles."""
        labels = []
        for _, costs in self._rows.values():
            values = np.array(costs)
            best = values.min()
            ratio = np.log2(values / best) if np.isfinite(best) and best > 0 else np.where(np.isfinite(values), 0.0, WORST)
            labels.append(WORST - np.minimum(ratio, WORST))
        groups = np.repeat(np.arange(len(self._rows)), [len(costs) for _, costs in self._rows.values()])
        features = np.stack([row for rows, _ in self._rows.values() for row in rows])
        return features.astype(np.float32), np.concatenate(labels).astype(np.float32), groups

    def save(self, path: str | Path) -> None:
        """Write a file that another session may start from."""
        tasks = {task: {"features": [row.tolist() for row in rows], "costs": [None if np.isinf(cost) else cost for cost in costs]}
                 for task, (rows, costs) in self._rows.items()}
        write_bytes(Path(path), json.dumps({"vtakit_cost_model": SCHEMA, "tasks": tasks}).encode(), "the cost model")

    @classmethod
    def load(cls, path: str | Path) -> "Samples":
        """Read such a file. Raises TuneError for any other, and VtakitError for one that cannot be read."""
        what = f"the cost model {str(path)!r}"
        try:
            found = json.loads(read_bytes(Path(path), "the cost model", MOST_BYTES))
            if found["vtakit_cost_model"] != SCHEMA:
                schema = found["vtakit_cost_model"]
                raise TuneError(f"{what} has schema {schema!r:.20}, and this version reads {SCHEMA}: train anew")
            samples = cls()
            for task, rows in found["tasks"].items():
                samples.add(str(task), np.array(rows["features"], np.float32), rows["costs"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, TuneError):
                raise
            raise TuneError(f"{what} is none: `vtakit tune --save-model` writes one") from None
        return samples
