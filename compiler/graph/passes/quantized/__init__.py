"""Quantized models, in which int8 stands between floating-point operators, as networks in integers."""
