"""Turns the ONNX text in a test file into an ONNX file.

    model.py TEST.test OUT.onnx

The text is what is left of the test without its `#` lines (onnx.parser's format).
"""
import sys

import onnx.parser

lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
model = onnx.parser.parse_model("\n".join(l for l in lines if not l.startswith("#")))
open(sys.argv[2], "wb").write(model.SerializeToString())
