"""Models of one node whose name and operator cannot be printed as they are.

    hostile_names.py FOLDER
"""
import os
import sys

from onnx import TensorProto, helper

names = {
    "line": "N\r\nfusion: error",
    "list": "N\n  node 'forged",
    "escape": "N\x1b[31m",
    "bidi": "N\u00e9\u202e",
    "nul": "N\0\0",
    "long": "N" + "A" * 10000,
}
os.makedirs(sys.argv[1], exist_ok=True)
for key, name in names.items():
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [4])
    node = helper.make_node("Op" + name, ["x"], ["y"], name=name)
    graph = helper.make_graph([node], "g", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    open(os.path.join(sys.argv[1], key + ".onnx"), "wb").write(model.SerializeToString())
