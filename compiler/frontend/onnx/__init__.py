"""ONNX models as graphs: `vtakit.compiler.frontend.onnx.importer.import_model`."""
