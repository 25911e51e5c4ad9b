"""The shipped records: networks of `vtakit.models` in integers, tuned for the accelerator's named configurations and systems.

    python benchmarks/shipped_records.py --tune [--only TEXT] [--time 10m] [--trials N]   tune, or go on: records in build/shipped
    python benchmarks/shipped_records.py --write [--only TEXT]     the best of them into runtime/tune/shipped.jsonl, and the gains
                                                                   into docs/tuning.md
    python benchmarks/shipped_records.py --refresh [--only TEXT]   measure what is shipped anew, with this version's code

`vtakit.compile(…, tuned="shipped")` uses them. For a network that gains there is a record of the whole, with the decisions that
differ from the default, and one of each task: its best candidate, its cycles, and those of the default. A record of this version
is written as it is; of another, default and candidate are compiled and counted again, and the RTL confirms the candidate again.
`quarter` is no named system: it is tuned and in the table, and not shipped.
"""

import argparse
import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import onnx
from page_parts import write_between

import vtakit
from vtakit import models
from vtakit.base.writing import write_bytes
from vtakit.compiler.graph.vta.region import PADS
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Candidate, alike, decided
from vtakit.hw.system import SYSTEMS
from vtakit.runtime import cli
from vtakit.runtime.model import network
from vtakit.runtime.tune.confirm import KIND, confirm
from vtakit.runtime.tune.cycles import Cycles
from vtakit.runtime.tune.forms import try_forms
from vtakit.runtime.tune.network import Network, network_record, settle
from vtakit.runtime.tune.records import SHIPPED, Record, Records, digest_of, place_of, versions

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "build" / "shipped", ROOT / "docs" / "tuning.md"
NETWORKS = "resnet18", "mobilenet_v1", "mobilenet_v2"
CONFIGS = ("default",)
QUARTER = {"bandwidth": 0.25, "latency": 60}
CONFIRM = 300_000  # cycles of a candidate that the RTL runs: two seconds
MEMORIES: dict[str, Any] = {"quarter": QUARTER, "ulx3s": "ulx3s", "pynq": "pynq"}
BEGIN, END = "<!-- begin: python benchmarks/shipped_records.py --write -->\n", "<!-- end -->\n"
Combination = tuple[str, str, str]


def model_of(name: str) -> Path:
    """Return the file of a network in integers; it is made once. The samples do not change what is shipped."""
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        samples = models.inputs(name, 2)
        onnx.save(vtakit.quantize(models.build(name), samples, evaluation=samples).model, path)
    return path


def tune(combination: Combination, time: str, trials: int | None) -> int:
    """Run `vtakit tune`."""
    name, config, memory = combination
    system = MEMORIES[memory]
    if not isinstance(system, str):
        (FOLDER / f"{memory}.json").write_text(json.dumps(system))
        system = str(FOLDER / f"{memory}.json")
    path = FOLDER / "-".join(combination)
    limits = ["--time", time, *([] if trials is None else ["--trials", str(trials)]), "--confirm", str(CONFIRM)]
    return cli.main(["tune", str(model_of(name)), "--target", "vta", "--config", config, "--system", system, *limits,
                     "--records", f"{path}.jsonl", "--json", f"{path}.json"])


def shipped_of(combination: Combination, known: Records) -> list[Record]:
    """Return the records of a network that are worth shipping: of the whole and of each task; none if it gains nothing."""
    name, config, memory = combination
    plain = network(model_of(name), "vta", config=config, system=MEMORIES[memory])
    net, own = try_forms(plain, Cycles(), known), {layer: each.task.key for each in plain.tuned for layer in each.layers}
    tasks, better = dict[int, Record](), dict[int, Candidate]()
    for at, each in enumerate(net.tuned):
        found = known.best(each.task.key) or known.best(own[each.layers[0]])  # the latter without forms: it is measured anew
        if found is not None:
            tasks[at] = _measured(net, at, found, known)
            if alike(each.task, tasks[at].decisions) != alike(each.task, defaults(each.task)):
                better[at] = tasks[at].decisions
    rtl = confirm([each.task for each in net.tuned], better, CONFIRM, records=known)
    better = {at: given for at, given in better.items() if at not in rtl.wrong}
    whole = next((each for each in reversed(known.of(net.key, "network")) if each.versions == versions()), None)
    if whole is None:
        whole = network_record(net, settle(net, better, Cycles()), 0)
    print(f"{' '.join(combination)}: {whole.default:,.0f} cycles by default, {whole.cost:,.0f} tuned; {rtl}", flush=True)
    if whole.cost is None or whole.default is None or whole.cost >= whole.default:
        return []
    said = [Record(kind=KIND, task=tasks[at].task, key=tasks[at].key, decisions=tasks[at].decisions, cost=each.cost)
            for at, each in rtl.outcomes.items() if not each.error]
    return [replace(whole, task=f"{name}, {config}, {memory}"), *tasks.values(), *said]


def _measured(net: Network, at: int, found: Record, known: Records) -> Record:
    """Return the record of a task's best candidate with the cost of the default, both of this version."""
    task = net.tuned[at].task
    usual = defaults(task)
    found = replace(found, key=task.key)
    costs = {alike(task, each.decisions): each.cost for each in known.of(task.key) if each.versions == versions()}
    missing = [each for each in (usual, found.decisions) if alike(task, each) not in costs and _legal(net, at, each)]
    costs |= {alike(task, missing[n]): outcome.cost for n, outcome in Cycles(workers=1).measure(task, missing)}
    default, cost = costs[alike(task, usual)], costs.get(alike(task, found.decisions))
    if cost is None or default is None or cost >= default:
        found, cost = replace(found, decisions=usual), default
    return replace(found, cost=cost, default=default, versions=versions(), spread=0.0, seconds=0.0)


def _legal(net: Network, at: int, given: Candidate) -> bool:
    try:
        decided(net.tuned[at].task, given)
    except vtakit.VtakitError:
        return False
    return True


def write(chosen: list[Combination], refresh: bool) -> None:
    """Write the file anew: chosen combinations from what was tuned, or from what it had; the others as they are."""
    path = place_of(SHIPPED)
    old = Records.read(path, missing_ok=True)
    kept: dict[tuple[str, str, str], Record] = {}  # networks share tasks: the cheapest trial of each stays
    for combination in product(NETWORKS, CONFIGS, [name for name in MEMORIES if name in SYSTEMS]):
        source = path if refresh else FOLDER / f"{'-'.join(combination)}.jsonl"
        if combination in chosen and source.exists():
            found = shipped_of(combination, Records.read(source))
        else:
            found = _of(old, ", ".join(combination))
        for each in found:
            name = each.kind, each.digest, json.dumps(each.decisions) if each.kind == KIND else ""
            if name not in kept or (each.cost or 0) < (kept[name].cost or 0):
                kept[name] = each
    write_bytes(path, b"".join(each.to_line() for each in kept.values()), "the shipped records")
    print(f"{path}: {len(kept)} records, {path.stat().st_size / 1e3:.0f} kB")


def _of(records: Records, name: str) -> list[Record]:
    """Return the records of a network that is shipped."""
    whole = [each for each in records if each.kind == "network" and each.task == name]
    digests = {digest for each in whole for digest, _ in each.key["network"]}
    return [*whole, *[each for each in records if each.kind != "network" and _plain_digest(each) in digests]]


def _plain_digest(record: Record) -> str:
    """Return the digest of a record's task without decisions of whole layers."""
    return digest_of({name: value for name, value in record.key.items() if name != PADS})


def table() -> str:
    """Return the gains of all networks that were tuned."""
    lines = ["| network | system | trials | seconds | default, cycles | tuned | less by |", "|---|---|---:|---:|---:|---:|---:|"]
    for name, config, memory in product(NETWORKS, CONFIGS, MEMORIES):
        path = FOLDER / f"{name}-{config}-{memory}.json"
        if path.exists():
            found = json.loads(path.read_text())
            whole = found["network"]
            lines.append(f"| {models.find(name).title} | {memory} | {found['trials']:,} | {found['seconds']:.0f} | "
                         f"{whole['default']:,.0f} | {whole['tuned']:,.0f} | {whole['gain']:.1%} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="tune, or go on")
    parser.add_argument("--write", action="store_true", help="write the best into the package, and the table")
    parser.add_argument("--refresh", action="store_true", help="measure what is shipped anew")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this in their names: resnet18-default-pynq")
    parser.add_argument("--trials", type=int, metavar="N", help="of one search (no limit)")
    parser.add_argument("--time", default="10m", metavar="TIME", help="of one search")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in product(NETWORKS, CONFIGS, MEMORIES) if args.only in "-".join(each)]
    if args.tune and any([tune(each, args.time, args.trials) for each in chosen]):
        return 2
    if args.write or args.refresh:
        write(chosen, args.refresh)
    if args.write:
        write_between(PAGE, BEGIN, "\n" + table(), END)
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
