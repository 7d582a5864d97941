"""MatMulNBits of any number of rows, bf16."""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

N, K, GROUP = 256, 512, 128
rng = np.random.default_rng(1)
codes = rng.integers(0, 256, (N, K // GROUP, GROUP // 2), np.uint8)
scales = rng.uniform(0.01, 0.02, (N, K // GROUP)).astype(ml_dtypes.bfloat16)
node = helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=K, N=N, bits=4, block_size=GROUP)
value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.BFLOAT16, ["rows", width])
graph = helper.make_graph([node], "g", [value("x", K)], [value("y", N)], [
    numpy_helper.from_array(codes, "q"), helper.make_tensor("s", TensorProto.BFLOAT16, scales.shape, scales.tobytes(), raw=True)])
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]), sys.argv[1])
