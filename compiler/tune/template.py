"""Templates: schedules that users write, with decisions in them.

::

    @template
    def matmul(cfg, n):
        A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
        k = te.reduce_axis((0, n), "k")
        C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        s = te.create_schedule(C.op)
        i, j = s[C].op.axis
        cfg.define_split("rows", i, num_outputs=2)
        io, ii = cfg["rows"].apply(s, C, i)
        ...
        return s, [A, B, C]

    task = matmul.task(512)
"""

import inspect
from collections.abc import Callable
from typing import Any, overload

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.schedule.decisions import DecisionError, Decisions
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor
from vtakit.compiler.tune.config import Config
from vtakit.compiler.tune.loops import LoopTask, Program, check_arguments, digest_of
from vtakit.compiler.tune.task import TuneError


class Template:
    """A function from decisions and arguments to a schedule; `template` makes one.

    function : is called with a `Config` and the arguments, and returns a schedule and the tensors that its function takes
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.function, self.name = function, name or getattr(function, "__name__", "template")
        self.__doc__ = function.__doc__

    def __call__(self, cfg: Config, *args: Any) -> Any:
        """Run the function."""
        return self.function(cfg, *args)

    def task(self, *args: Any, target: Target | None = None, threads: int = 1, name: str = "") -> "TemplateTask":
        """Return the task of the template for some arguments.

        target  : processor; this machine's if None
        threads : of parallel loops
        """
        return TemplateTask(self, args, name=name, target=target, threads=threads)

    @property
    def source(self) -> str:
        """Text of the function; its compiled form where the text is not to be had."""
        try:
            return inspect.getsource(self.function)
        except (OSError, TypeError):
            code = getattr(self.function, "__code__", None)
            return repr((code.co_code, code.co_consts, code.co_names)) if code is not None else repr(self.function)


@overload
def template(given: Callable[..., Any], /) -> Template: ...
@overload
def template(given: str = "", /) -> Callable[[Callable[..., Any]], Template]: ...
def template(given: Any = "", /) -> Any:
    """Make a function of decisions and arguments a template: ``@template``, or ``@template("name")``."""
    return Template(given) if callable(given) else lambda function: Template(function, given)


class TemplateTask(LoopTask):
    """A template with arguments."""

    def __init__(
        self, of: Template, args: tuple[Any, ...], *, name: str = "", target: Target | None = None, threads: int = 1,
    ) -> None:
        super().__init__(name or f"{of.name}({', '.join(map(str, args))})", target, threads)
        self.template, self.args = of, args
        self.configure(Decisions())

    def program(self, decisions: Decisions) -> Program:
        """Return the schedule that decisions lead to. Raises DecisionError for a combination that is not legal."""
        return self.configure(decisions)[1]

    def configure(self, decisions: Decisions) -> tuple[Config, Program]:
        """Run the template; return what it decided, and its schedule.

        Raises DecisionError for a combination that a primitive of the schedule refuses, TuneError for a template that fails, or
        returns no schedule with its arguments.
        """
        cfg = Config(decisions, self.template.name)
        try:
            found = self.template(cfg, *self.args)
        except ScheduleError as error:
            raise DecisionError(f"{self.template.name}: {error}") from error
        except VtakitError:
            raise
        except Exception as error:  # of the user's function
            raise TuneError(f"template {self.template.name!r:.80} fails with the decisions {decisions.values!r:.200}: "
                            f"{type(error).__name__}: {error}") from error
        if not (isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], Schedule)
                and isinstance(found[1], tuple | list) and all(isinstance(arg, Tensor) for arg in found[1])):
            raise TuneError(f"template {self.template.name!r:.80} returned {found!r:.80}: return the schedule and the list of "
                            "the tensors that its function takes, as in: return s, [A, B, C]")
        check_arguments(self.name, [op.output(at) for op in found[0].outputs for at in range(op.num_outputs)], found[1])
        return cfg, Program(found[0], tuple(found[1]))

    @property
    def config(self) -> Config:
        """The decisions with their defaults: ``len(task.config)`` counts candidates, before constraints."""
        return self.configure(Decisions())[0]

    @property
    def rule(self) -> str:
        """The template's name and arguments, and a digest of its text."""
        return f"template {self.template.name}({', '.join(map(repr, self.args))}) {digest_of(self.template.source)}"
