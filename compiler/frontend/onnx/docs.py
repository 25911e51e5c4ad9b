"""The list of ONNX's operators in the documentation, made from the converters and ONNX's own table."""

from typing import Any

from vtakit.compiler.frontend.onnx.nodes import STAGED
from vtakit.compiler.frontend.onnx.operators import CONVERTERS

_WIDTH = 120
_IN_IMPORTER = ("If",)


def operator_lists() -> dict[str, tuple[str, ...]]:
    """Operators by how vtakit reads them: "own", ONNX's by a converter; "function", by ONNX's function; "staged"; "none";
    "microsoft"; "ml"."""
    import onnx

    newest: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas():
        if not schema.domain and not schema.deprecated:
            newest[schema.name] = schema
    own = {*[name for name in CONVERTERS if "." not in name], *_IN_IMPORTER}
    defined = {name for name, schema in newest.items() if schema.has_function or schema.has_context_dependent_function}
    staged = set(STAGED) & newest.keys()
    functions = defined - own - staged
    return {
        "own": tuple(sorted(own)), "function": tuple(sorted(functions)),
        "none": tuple(sorted(newest.keys() - own - functions - staged)),
        "staged": tuple(sorted(staged)),
        **{key: tuple(sorted([name.rpartition(".")[2] for name in CONVERTERS if name.rpartition(".")[0] == domain]))
           for key, domain in (("microsoft", "com.microsoft"), ("ml", "ai.onnx.ml"))},
    }


def operator_text() -> str:
    """The lists as Markdown."""
    heads = {
        "own": "Read as they are",
        "function": "Read as the function that ONNX's standard gives them",
        "staged": "Run in stages of their own, as `If` where its condition is not known",
        "microsoft": "Read of the domain com.microsoft, as onnxruntime's optimizers and quantizers write them",
        "ml": "Read of the domain ai.onnx.ml, on numbers",
        "none": "Not read",
    }
    parts = []
    for kind, names in operator_lists().items():
        lines, line = [], ""
        for i, name in enumerate(names):
            word = f"`{name}`{'.' if i == len(names) - 1 else ','}"
            if len(line) + len(word) + 1 > _WIDTH:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
        parts.append(f"**{heads[kind]}** ({len(names)}):\n" + "\n".join([*lines, line]))
    return "\n\n".join(parts) + "\n"
