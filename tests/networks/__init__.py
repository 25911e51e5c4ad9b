"""Random quantized networks: how they are drawn, written as ONNX, compared on every target, and shrunk."""
