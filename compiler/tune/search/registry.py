"""The searches by name."""

from vtakit.base.errors import one_of
from vtakit.compiler.tune.model import CostModel
from vtakit.compiler.tune.search.base import Search
from vtakit.compiler.tune.search.learned import Annealing, Evolution, Ranking
from vtakit.compiler.tune.search.plain import Exhaustive, Genetic, Grid, Random
from vtakit.compiler.tune.task import Task, TuneError

SEARCHES: dict[str, type[Search]] = {
    each.name: each for each in (Evolution, Ranking, Annealing, Genetic, Random, Grid, Exhaustive)}
AUTO = "auto"  # ranking where the space is a table, else evolution


def find_search(name: str) -> type[Search] | None:
    """Return the class of a search; None for the one that a task decides. Raises TuneError for a name that is none."""
    if name == AUTO:
        return None
    if name not in SEARCHES:
        raise TuneError(f"--search {name!r:.40} is unknown; {one_of((AUTO, *SEARCHES), name)}")
    return SEARCHES[name]


def make_search(name: str, task: Task, seed: int = 0, model: CostModel | None = None, *, default: bool = True) -> Search:
    """Return a search of a task, whose first candidate is the default if `default`.

    Raises TuneError for a name that is none, and for a search that its space does not have."""
    table = getattr(task, "table", None) is not None
    cls = find_search(name) or (Ranking if table else Evolution)
    if cls is Ranking and not table:
        raise TuneError(f"search 'ranking' needs a space that is a table, and that of {task.name!r:.80} is none: give "
                        "--search evolution")
    return cls(task, seed, model, default=default)


def needs_model(name: str) -> bool:
    """Return whether a search ranks by the cost model."""
    cls = find_search(name)
    return cls is None or cls.learns
