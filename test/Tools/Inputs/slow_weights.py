"""DequantizeLinear before MatMul, of 16 rows, in forms that no template reads packed: slow_weights.py group|float|special|shared MODEL.onnx"""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

form, path = sys.argv[1:]
M, N, K = 16, 64, 192
group = 48 if form == "group" else 64
real = T.FLOAT if form == "float" else T.BFLOAT16
rng = np.random.default_rng(0)
dtype = np.float32 if form == "float" else ml_dtypes.bfloat16
scales = rng.uniform(0.01, 0.02, (N, K // group)).astype(dtype)
if form == "special":
    codes = rng.integers(0x20, 0x50, (N, K), np.uint8)
    codes[3, 5] = 0x7F  # NaN
    q = T(name="q", data_type=T.FLOAT8E4M3FN, dims=(N, K), raw_data=codes.tobytes())
else:
    q = T(name="q", data_type=T.UINT4, dims=(N, K), raw_data=rng.integers(0, 256, N * K // 2, np.uint8).tobytes())
nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=group),
         helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
outputs = [helper.make_tensor_value_info("y", real, (M, N))]
if form == "shared":  # the codes leave as integers, too
    nodes += [helper.make_node("Transpose", ["q"], ["turned"], perm=[1, 0]), helper.make_node("Cast", ["turned"], ["c"], to=T.INT32)]
    outputs.append(helper.make_tensor_value_info("c", T.INT32, (K, N)))
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", real, (M, K))], outputs, [q, helper.make_tensor("s", real, scales.shape, scales.tobytes(), raw=True)])
onnx.save(helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 23)]), path)
