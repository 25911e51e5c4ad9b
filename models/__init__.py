"""Networks with seeded random weights, as ONNX models: what examples, tests and benchmarks compile.

    model = vtakit.models.build("resnet18")                onnx.ModelProto
    arrays = vtakit.models.inputs("resnet18", batch=4)      what it may be run on

`python -m vtakit.models resnet18 -o resnet18.onnx` writes a file.
"""

from vtakit.models.networks import NETWORKS, Network, build, find, inputs, parameter_count

__all__ = ["NETWORKS", "Network", "build", "find", "inputs", "parameter_count"]
