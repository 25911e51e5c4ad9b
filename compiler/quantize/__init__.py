"""Post-training quantization of ONNX models: ranges of activations, what becomes int8, and the QDQ model that says so."""
