"""The JSON of an exported program, checked and copied before torch sees it.

torch's own reader evaluates parts of it: symbolic sizes and guards as Python text, names as Python text of the graph, types of
nested inputs by importing modules, operators by looking up any attribute of torch. So only what a plain program needs is
copied: operators of PyTorch's own namespaces, tensors of fixed shapes, numbers and words. Everything else is refused, or left out
where it does not change what the program computes.
"""

import json
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from vtakit.base.limits import MAX_BLOCK_NESTING, MAX_NODES, check_limit, check_name, check_shape
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.torch.archive import fixed_size
from vtakit.compiler.frontend.torch.operators import CONVERTERS

JSON = Any
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = re.compile(r"[\w.\-]+")
_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|quantized_decomposed)\.(\w+)\.(\w+)", re.ASCII)
_BLOCKS = ("torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast")
# Operators without a tensor among their operands that only make one; others, such as aten::from_file, reach outside.
_MAKERS = frozenset({
    "arange", "empty", "empty_permuted", "empty_strided", "eye", "full", "hann_window", "hamming_window", "bartlett_window",
    "blackman_window", "kaiser_window", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "scalar_tensor",
    "tril_indices", "triu_indices", "zeros", "iota", "sym_size", "sym_numel",
})
_DIALECTS = ("ATEN", "TRAINING")
_CPU = {"type": "cpu", "index": None}
_INFINITE = ("Infinity", "-Infinity", "NaN")
_LEAF: dict[str, JSON] = {"type": None, "context": None, "children_spec": []}


def checked_program(program: JSON) -> dict[str, JSON]:
    """Return the parts of an exported program that are needed, as JSON for torch's reader.

    Raises ModelError for what is refused, LimitError for a limit, and KeyError, TypeError or AttributeError for JSON of another
    form.
    """
    module = program["graph_module"]
    signature = module["signature"]
    inputs = [_one(spec, _INPUTS, "input") for spec in _list(signature["input_specs"])]
    outputs = [_one(spec, _OUTPUTS, "output") for spec in _list(signature["output_specs"])]
    given = [_called(spec, at) for at, spec in enumerate(inputs) if next(iter(spec)) in ("user_input", "constant_input")]
    made = sum(next(iter(spec)) == "user_output" for spec in outputs)
    call = {"fqn": "", "signature": {
        "inputs": [], "outputs": [], "in_spec": _flat_spec(len(given), called=True), "out_spec": _flat_spec(made),
        "forward_arg_names": given,
    }}
    version = program["schema_version"]
    dialects = [str(each) for each in _list(program.get("verifiers") or [])]
    return {
        "graph_module": {
            "graph": _graph(module["graph"], 0),
            "signature": {"input_specs": inputs, "output_specs": outputs},
            "module_call_graph": [call], "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": _int(program["opset_version"]["aten"])},
        "range_constraints": {},
        "schema_version": {"major": _int(version["major"]), "minor": _int(version["minor"])},
        "verifiers": [each for each in dialects if each in _DIALECTS],
        "torch_version": str(program.get("torch_version", ""))[:40],
        "guards_code": [],
    }


def _called(spec: JSON, at: int) -> str:
    """The name of an input; torch gives it to the inputs of the program that it makes of this one."""
    value = next(iter(spec.values()))
    held = value if "name" in value else next(iter(value["arg"].values()))
    return str(held["name"]) if isinstance(held, dict) and "name" in held else f"constant_{at}"


def _flat_spec(count: int, *, called: bool = False) -> str:
    """torch's description of a tuple of so many values, or of a call with so many arguments: nesting says nothing here."""
    flat = {"type": "builtins.tuple", "context": "null", "children_spec": [_LEAF] * count}
    none = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    call = {"type": "builtins.tuple", "context": "null", "children_spec": [flat, none]}
    return json.dumps([1, call if called else flat])


def _graph(graph: JSON, depth: int) -> JSON:
    check_limit(depth, MAX_BLOCK_NESTING, "the nesting of its blocks")
    if graph.get("custom_obj_values"):
        raise ModelError(f"it reads the custom object {next(iter(graph['custom_obj_values']))!r:.60}, whose making would "
                         "run code")
    for kind in ("sym_int_values", "sym_bool_values", "sym_float_values"):
        if graph.get(kind):
            raise ModelError(f"its size {next(iter(graph[kind]))!r:.60} is open: export the module without dynamic_shapes")
    nodes = _list(graph["nodes"])
    check_limit(len(nodes), MAX_NODES, "the number of its nodes")
    return {
        "inputs": [_argument(each, depth) for each in _list(graph["inputs"])],
        "outputs": [_argument(each, depth) for each in _list(graph["outputs"])],
        "nodes": [_node(each, depth) for each in nodes],
        "tensor_values": {_word(name): _meta(meta, f"tensor {name!r}") for name, meta in graph["tensor_values"].items()},
        "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "custom_obj_values": {},
        "is_single_tensor_return": _bool(graph.get("is_single_tensor_return", False)),
    }


def _node(node: JSON, depth: int) -> JSON:
    target = node["target"]
    blocks = target in _BLOCKS
    if not blocks:
        _check_operator(target)
    stack = node["metadata"].get("nn_module_stack")
    return {
        "target": target,
        "inputs": [
            {"name": _word(each["name"]) if each["name"] else "", "arg": _argument(each["arg"], depth, blocks=blocks),
             "kind": None if each.get("kind") is None else _int(each["kind"])}
            for each in _list(node["inputs"])
        ],
        "outputs": [_argument(each, depth) for each in _list(node["outputs"])],
        "metadata": {"nn_module_stack": stack} if _is_stack(stack) else {},
        "is_hop_single_tensor_return": node.get("is_hop_single_tensor_return") and True,
        "name": None if node.get("name") is None else _word(node["name"]),
    }


def _check_operator(target: JSON) -> None:
    """Refuse what is neither registered in this process nor an operator of PyTorch's own that works on tensors."""
    import torch

    found = _OPERATOR.fullmatch(target) if isinstance(target, str) else None
    if found is None:
        if str(target).removeprefix("torch.ops.") in CONVERTERS:
            return
        raise ModelError(f"it calls {target!r:.80}, no operator of PyTorch's own (torch.ops.aten): code of others is not run")
    namespace, name, overload = found.groups()
    if namespace == "quantized_decomposed":
        import_module("torch.ao.quantization.fx._decomposed")  # which registers it
    op = getattr(getattr(getattr(torch.ops, namespace), name, None), overload, None)
    if not isinstance(op, torch._ops.OpOverload):
        raise ModelError(f"it calls {target!r:.80}, which PyTorch {torch.__version__} does not have")
    if name not in _MAKERS and not any("Tensor" in str(argument.type) for argument in op._schema.arguments):
        raise ModelError(f"it calls {target!r:.80}, which works on no tensor: operators that reach outside are refused")


def _is_stack(stack: JSON) -> bool:
    return isinstance(stack, str) and stack.isprintable() and all(entry.count(",") >= 2 for entry in stack.split(";"))


def _argument(argument: JSON, depth: int, *, blocks: bool = False) -> JSON:
    """One operand or result: a tensor's name, or numbers and words."""
    kind, value = _only(argument)
    if kind == "as_graph":
        if not blocks:
            raise ModelError("it gives a graph to an operator, which vtakit does not read")
        return {kind: {"name": _word(value["name"]), "graph": _graph(value["graph"], depth + 1)}}
    if kind not in _ARGUMENTS:
        raise ModelError(f"it has an operand of the kind {kind!r:.40}, which vtakit does not read")
    return {kind: _ARGUMENTS[kind](value)}


def _only(union: JSON) -> tuple[str, JSON]:
    if not isinstance(union, dict) or len(union) != 1:
        raise TypeError(f"{union!r:.60} is no value with its kind")
    return next(iter(union.items()))


def _list(given: JSON) -> list[JSON]:
    if not isinstance(given, list):
        raise TypeError(f"{given!r:.60} is no list")
    return given


def _int(given: JSON) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not -(1 << 63) <= given < 1 << 63:
        raise TypeError(f"{given!r:.60} is no whole number of 64 bits")
    return given


def _float(given: JSON) -> JSON:
    if isinstance(given, float) or given in _INFINITE:
        return given
    return float(_int(given))


def _bool(given: JSON) -> bool:
    if not isinstance(given, bool):
        raise TypeError(f"{given!r:.60} is neither true nor false")
    return given


def _text(given: JSON) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.60} is no text")
    check_name(given, "the text")
    return given


def _word(given: JSON) -> str:
    """A name that torch writes into the Python text of the graph."""
    if not _WORD.fullmatch(_text(given)) or keyword.iskeyword(given):
        raise ModelError(f"it has a value named {given!r:.60}; a name is letters, digits and _")
    return str(given)


def _parameter(given: JSON) -> str:
    if not _PARAMETER.fullmatch(_text(given)):
        raise ModelError(f"it has a tensor named {given!r:.60}; a name is letters, digits, '_', '-' and '.'")
    return str(given)


def _named(value: JSON) -> JSON:
    return {"name": _word(value["name"])}


def _maybe_tensor(value: JSON) -> JSON:
    kind, inner = _only(value)
    if kind not in ("as_tensor", "as_none"):
        raise TypeError(f"{kind!r:.40} is neither a tensor nor none")
    return {kind: _named(inner) if kind == "as_tensor" else True}


def _literal(kind: str, read: Callable[[JSON], JSON]) -> Callable[[JSON], JSON]:
    """A size that may be symbolic where shapes are open; here it is a number."""
    def checked(value: JSON) -> JSON:
        found, inner = _only(value)
        if found != kind:
            raise ModelError("the numbers decide a size in it: export the module without dynamic_shapes")
        return {kind: read(inner)}
    return checked


def _each(read: Callable[[JSON], JSON]) -> Callable[[JSON], list[JSON]]:
    return lambda value: [read(each) for each in _list(value)]


_SIZE = _literal("as_int", _int)
_ARGUMENTS: Mapping[str, Callable[[JSON], JSON]] = {
    "as_none": lambda _: True, "as_tensor": _named, "as_tensors": _each(_named), "as_nested_tensors": _each(_each(_named)),
    "as_optional_tensor": _maybe_tensor, "as_optional_tensors": _each(_maybe_tensor),
    "as_int": _int, "as_ints": _each(_int), "as_int_lists": _each(_each(_int)), "as_float": _float, "as_floats": _each(_float),
    "as_float_lists": _each(_each(_float)), "as_bool": _bool, "as_bools": _each(_bool), "as_string": _text,
    "as_strings": _each(_text), "as_complex": lambda value: {"real": _float(value["real"]), "imag": _float(value["imag"])},
    "as_sym_int": _SIZE, "as_sym_ints": _each(_SIZE), "as_sym_float": _literal("as_float", _float),
    "as_sym_floats": _each(_literal("as_float", _float)), "as_sym_bool": _literal("as_bool", _bool),
    "as_sym_bools": _each(_literal("as_bool", _bool)), "as_scalar_type": _int, "as_memory_format": _int, "as_layout": _int,
    "as_device": lambda _: _CPU,
}


def _meta(meta: JSON, what: str) -> JSON:
    """A tensor's type; whatever device it was on, here it is on the CPU."""
    shape = [fixed_size(each, what) for each in _list(meta["sizes"])]
    check_shape(shape, what)
    return {
        "dtype": _int(meta["dtype"]), "sizes": _sizes(shape), "requires_grad": False, "device": _CPU,
        "strides": _sizes([fixed_size(each, what) for each in _list(meta["strides"])]),
        "storage_offset": {"as_int": fixed_size(meta["storage_offset"], what)}, "layout": _int(meta["layout"]),
    }


def _sizes(sizes: Sequence[int]) -> list[JSON]:
    return [{"as_int": size} for size in sizes]


def _one(spec: JSON, known: Mapping[str, Callable[[JSON], JSON]], what: str) -> JSON:
    kind, value = _only(spec)
    if kind not in known:
        raise ModelError(f"it has an {what} of the kind {kind!r:.40}, which vtakit does not read")
    return {kind: known[kind](value)}


def _target(field: str, read: Callable[[JSON], JSON] = _parameter) -> Callable[[JSON], JSON]:
    return lambda value: {"arg": _named(value["arg"]), field: read(value[field])}


def _buffer(value: JSON) -> JSON:
    return {**_target("buffer_name")(value), "persistent": _bool(value["persistent"])}


def _constant(value: JSON) -> JSON:
    kind, inner = _only(value["value"])
    if kind not in ("as_none", "as_int", "as_float", "as_string", "as_bool"):
        raise TypeError(f"{kind!r:.40} is no kind of constant")
    return {"name": _word(value["name"]), "value": {kind: _ARGUMENTS[kind](inner)}}


def _user(value: JSON) -> JSON:
    return {"arg": _argument(value["arg"], 0)}


_INPUTS = {
    "user_input": _user, "parameter": _target("parameter_name"), "buffer": _buffer,
    "tensor_constant": _target("tensor_constant_name"), "constant_input": _constant,
}
_OUTPUTS = {
    "user_output": _user, "loss_output": lambda value: {"arg": _named(value["arg"])},
    "buffer_mutation": _target("buffer_name"), "parameter_mutation": _target("parameter_name"),
    "gradient_to_parameter": _target("parameter_name"), "gradient_to_user_input": _target("user_input_name", _word),
    "user_input_mutation": _target("user_input_name", _word),
}
