"""Builders that write ONNX models out of weight files, without torch."""
