"""Writes an ONNX model whose weights stream into one external data file as they are made.

At no time more than one weight is in memory. The data file is complete before the model that names it appears under
its own name.
"""
import os
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Below this many bytes a tensor stays inside the model, where shape arithmetic can see it.
EXTERNAL_FROM = 1024
# Page-aligned weights can be mapped one by one.
ALIGNMENT = 4096


class OnnxWriter:
    """Nodes and weights of one graph. Every node's output is named after the node, as torch's exporter does."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.data_path = self.path.with_name(self.path.name + ".data")
        self._data_tmp = self.data_path.with_name(self.data_path.name + ".part")
        self._data = open(self._data_tmp, "wb")
        self._end = 0
        self._nodes, self._initializers, self._constants = [], [], {}
        self.inputs, self.outputs = [], []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._data.close()
        if kind is not None:
            self._data_tmp.unlink(missing_ok=True)

    def node(self, op, inputs, name, outputs=1, domain="", output=None, **attributes):
        """Adds a node; returns its output's name, or a tuple of them when there are several. `output` names it, or all of them."""
        names = list(output) if isinstance(output, (list, tuple)) else [output] if output else [f"{name}_output_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(op, list(inputs), names, name=name, domain=domain, **attributes))
        return names[0] if len(names) == 1 else tuple(names)

    def rename_last(self, output):
        """Gives the last node's only output the name of a graph output."""
        self._nodes[-1].output[:] = [output]

    def weight(self, name, array):
        """Adds an initializer; a large one goes to the data file at once."""
        array = np.asarray(array, order="C")  # ascontiguousarray would give a scalar a dimension
        if array.nbytes < EXTERNAL_FROM:
            self._initializers.append(numpy_helper.from_array(array, name))
            return name
        self._data.seek(self.reserve(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.nbytes))
        self._data.write(array.reshape(-1).view(np.uint8).data)  # types of ml_dtypes have no buffer
        return name

    def reserve(self, name, data_type, dims, size):
        """Adds an initializer of `size` bytes in the data file without writing it; returns its offset."""
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = offset + size
        t = TensorProto(name=name, data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
        for k, v in (("location", self.data_path.name), ("offset", offset), ("length", size)):
            t.external_data.add(key=k, value=str(v))
        self._initializers.append(t)
        return offset

    def file(self):
        """Descriptor of the data file, for bytes of reserved initializers (os.pwrite)."""
        return self._data.fileno()

    def constant(self, value, dtype=np.int64):
        """A small constant, shared by all its uses."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"/Constant_{len(self._constants)}", array)
        return self._constants[key]

    def input(self, name, elem_type, shape):
        self.inputs.append(helper.make_tensor_value_info(name, elem_type, shape))
        return name

    def output(self, name, elem_type, shape):
        self.outputs.append(helper.make_tensor_value_info(name, elem_type, shape))

    def save(self, name, opsets, metadata=None):
        """Writes the model; the data file takes its final name first."""
        graph = helper.make_graph(self._nodes, name, self.inputs, self.outputs, self._initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()],
                                  ir_version=10, producer_name="fusion")
        if metadata:
            helper.set_model_props(model, metadata)
        self._data.close()
        os.replace(self._data_tmp, self.data_path)
        tmp = self.path.with_name(self.path.name + ".part")
        onnx.save(model, tmp, format="protobuf")
        os.replace(tmp, self.path)
        return model
