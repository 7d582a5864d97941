"""Writes a model with 4-bit weights [K, N] in an external file, or checks that an artifact for the card holds them in fragments.

    packed_weights.py make MODEL.onnx
    packed_weights.py check MODEL.fusion
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

K, N, BLOCK = 1056, 521, 32
RNG = np.random.default_rng(3)
CODES = RNG.integers(0, 16, (K, N)).astype(np.uint8)
SCALES = RNG.integers(0x3C00, 0x3E00, (K // BLOCK, N)).astype(np.uint16)


def nibbles(codes):
    flat = codes.reshape(-1)
    flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return (flat[::2] | flat[1::2] << 4).tobytes()


def make(path):
    tensors = [T(name="q", data_type=T.INT4, dims=CODES.shape, raw_data=nibbles(CODES)), T(name="s", data_type=T.BFLOAT16, dims=SCALES.shape, raw_data=SCALES.tobytes())]
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=BLOCK), helper.make_node("MatMul", ["x", "w"], ["y"])]
    value = lambda name, shape: helper.make_tensor_value_info(name, T.BFLOAT16, shape)
    graph = helper.make_graph(nodes, "g", [value("x", (1, K))], [value("y", (1, N))], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location=pathlib.Path(path).name + ".data", size_threshold=0)


def fragments(codes):
    """[N, K] signed codes in the order of mma.m16n8k16's A, by its definition: lane, register, half."""
    n, k = codes.shape
    strips, units = -(-n // 16), -(-k // 64)
    words = np.zeros((strips, units, 32, 4), np.uint32)
    padded = np.zeros((strips * 16, units * 64), np.uint32)
    padded[:n, :k] = codes ^ 8
    for lane in range(32):
        for step in range(4):
            for j in range(4):
                for e in range(2):
                    row, column = lane // 4 + 8 * (j & 1), 16 * step + 2 * (lane % 4) + 8 * (j >> 1) + e
                    words[:, :, lane, step] |= padded[row::16, column::64] << np.uint32(4 * j + 16 * e)
    return words.tobytes()


def strips(scales):
    """[N, G] in strips of 16 rows: row and row + 8 are neighbours."""
    n, groups = scales.shape
    padded = np.zeros((-(-n // 16) * 16, groups), scales.dtype)
    padded[:n] = scales
    return padded.reshape(-1, 2, 8, groups).transpose(0, 3, 2, 1).tobytes()


def check(path):
    bytes_ = pathlib.Path(path).read_bytes()
    for name, want in (("codes", fragments(CODES.T.astype(np.uint32))), ("scales", strips(SCALES.T))):
        print(name, "found" if want in bytes_ else "not found")


{"make": make, "check": check}[sys.argv[1]](sys.argv[2])
