"""Tuning of templates and tensor expressions.

::

    from vtakit import te, tune

    found = tune.run(tune.expression(C, [A, B, C]), trials=64)
    found.build()(a, b, c)

docs/tuning_expressions.md explains both. Models are tuned by the command `vtakit tune`.
"""

from vtakit.compiler.schedule.decisions import Decision, DecisionError, Decisions
from vtakit.compiler.tune.choices import AnnotateChoice, Choice, ReorderChoice, SplitChoice
from vtakit.compiler.tune.config import Config
from vtakit.compiler.tune.features import features_of
from vtakit.compiler.tune.flops import count_flops
from vtakit.compiler.tune.sketch import ExpressionTask, expression
from vtakit.compiler.tune.task import Task, TuneError
from vtakit.compiler.tune.template import Template, TemplateTask, template
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.crew import Limits
from vtakit.runtime.tune.local import Found, recorded, run
from vtakit.runtime.tune.outcome import Measurer, Outcome
from vtakit.runtime.tune.subject import Effort
from vtakit.runtime.tune.workers import WorkersMeasurer

__all__ = [
    "AnnotateChoice", "Choice", "Config", "CpuMeasurer", "Decision", "DecisionError", "Decisions", "Effort", "ExpressionTask",
    "Found", "Limits", "Measurer", "Outcome", "ReorderChoice", "SplitChoice", "Task", "Template", "TemplateTask", "TuneError",
    "WorkersMeasurer", "count_flops", "expression", "features_of", "recorded", "run", "template",
]
