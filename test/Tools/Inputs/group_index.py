"""Writes MatMulNBits with a group index, as act-order GPTQ files have it: group_index.py MODEL.onnx"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

N, K, BLOCK = 64, 256, 32
rng = np.random.default_rng(0)
tensors = {"q": rng.integers(0, 256, (N, K // BLOCK, BLOCK // 2), dtype=np.uint8), "s": rng.random((N, K // BLOCK)).astype(np.float16),
           "g": rng.permutation(np.repeat(np.arange(K // BLOCK), BLOCK)).astype(np.int32)}
node = helper.make_node("MatMulNBits", ["x", "q", "s", "", "g"], ["y"], domain="com.microsoft", K=K, N=N, bits=4, block_size=BLOCK)
value = lambda name, width: helper.make_tensor_value_info(name, T.FLOAT16, (1, width))
graph = helper.make_graph([node], "g", [value("x", K)], [value("y", N)], [numpy_helper.from_array(a, name) for name, a in tensors.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10), sys.argv[1])
