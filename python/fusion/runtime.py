"""The runtime's C interface (include/fusion-c/Runtime.h) through ctypes: models, sessions, tensors used where they are.

    model = Model("model.fusion", device="cuda")
    session = model.session()
    session.bind("x", x)            # a numpy array, or a torch tensor of the processor or the model's card: no copy
    session.bind_output("y", y)     # optional; else the output is read by session.output("y")
    session.run()

An artifact holds native code: open only files that you would run.
"""
import ctypes
import json
import pathlib

import ml_dtypes
import numpy as np

CPU, CUDA = 1, 2
# Numbers of ONNX's TensorProto.DataType.
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16,
          11: np.float64, 12: np.uint32, 13: np.uint64, 16: ml_dtypes.bfloat16}
NUMBERS = {np.dtype(t).name: n for n, t in DTYPES.items()}


class RuntimeFault(Exception):
    """What the runtime said."""


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("role", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("dim_text", ctypes.POINTER(ctypes.c_char_p))]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_uint64)]


def _describe(tensor):
    """A _Tensor over memory of the caller; contiguous ones only."""
    if hasattr(tensor, "data_ptr"):  # torch
        if not tensor.is_contiguous():
            raise ValueError("expected a contiguous tensor")
        number = NUMBERS[str(tensor.dtype).removeprefix("torch.")]
        device, index = (CUDA, tensor.device.index or 0) if tensor.device.type == "cuda" else (CPU, 0)
        pointer, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    else:
        if not tensor.flags.c_contiguous:
            raise ValueError("expected a contiguous array")
        number, device, index, pointer, size = NUMBERS[tensor.dtype.name], CPU, 0, tensor.ctypes.data, tensor.nbytes
    dims = (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
    return _Tensor(pointer, device, index, number, len(tensor.shape), dims, size)


def find_library(near=None):
    """libfusion_runtime.so of a folder of binaries, or of the build."""
    root = pathlib.Path(__file__).resolve().parents[2]
    for folder in filter(None, (near, root, root / "build/dev", root / "build/release-static")):
        for path in (pathlib.Path(folder) / "lib", pathlib.Path(folder).parent / "lib"):
            if (path / "libfusion_runtime.so").exists():
                return path / "libfusion_runtime.so"
    raise FileNotFoundError("no libfusion_runtime.so; build it with ninja fusion_runtime")


class Library:
    def __init__(self, path=None):
        self.c = ctypes.CDLL(str(path or find_library()))
        self.c.fusionLastError.restype = self.c.fusionModelExplain.restype = ctypes.c_char_p
        self.c.fusionSessionLength.restype = self.c.fusionSessionSequenceLength.restype = ctypes.c_int64
        self.c.fusionModelExplain.argtypes = self.c.fusionModelClose.argtypes = self.c.fusionSessionDestroy.argtypes = [ctypes.c_void_p]
        self.c.fusionSessionSequenceCount.argtypes = [ctypes.c_void_p]
        self.c.fusionSessionSequenceLength.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        self.c.fusionSessionLength.argtypes = self.c.fusionSessionRun.argtypes = self.c.fusionSessionReset.argtypes = [ctypes.c_void_p]

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments):
            raise RuntimeFault(self.c.fusionLastError().decode())


class Model:
    def __init__(self, path, device="host", library=None):
        self.library, self.handle = library or Library(), ctypes.c_void_p()
        self.library.call("fusionModelOpen", str(path).encode(), device.encode(), 0, ctypes.byref(self.handle))
        self.inputs, self.outputs = self._names("Input"), self._names("Output")

    def _names(self, kind):
        info, names = _TensorInfo(), []
        for i in range(getattr(self.library.c, f"fusionModel{kind}Count")(self.handle)):
            self.library.call(f"fusionModel{kind}", self.handle, i, ctypes.byref(info))
            names.append(info.name.decode())
        return names

    def explain(self):
        """The fusion report that the compiler stored."""
        return json.loads(self.library.c.fusionModelExplain(self.handle) or b"{}")

    def session(self):
        return Session(self)

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.c.fusionModelClose(self.handle)


class Session:
    def __init__(self, model):
        self.model, self.library, self.handle, self.kept = model, model.library, ctypes.c_void_p(), {}
        self.library.call("fusionSessionCreate", model.handle, ctypes.byref(self.handle))

    def bind(self, name, tensor):
        self.kept[name] = tensor
        self.library.call("fusionSessionBindInput", self.handle, self.model.inputs.index(name), ctypes.byref(_describe(tensor)))

    def bind_output(self, name, tensor):
        self.kept[name] = tensor
        self.library.call("fusionSessionBindOutput", self.handle, self.model.outputs.index(name), ctypes.byref(_describe(tensor)))

    def run(self):
        if self.library.c.fusionSessionRun(self.handle):
            raise RuntimeFault(self.library.c.fusionLastError().decode())

    def run_timed(self):
        """Microseconds between the first kernel's begin and the last one's end, by the card's clock."""
        seconds = ctypes.c_double()
        self.library.call("fusionSessionRunTimed", self.handle, ctypes.byref(seconds))
        return seconds.value * 1e6

    def output(self, name):
        """A copy of an output of the last run that was not bound."""
        index, data, size, rank = self.model.outputs.index(name), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int32()
        dims, info = ctypes.POINTER(ctypes.c_int64)(), _TensorInfo()
        self.library.call("fusionModelOutput", self.model.handle, index, ctypes.byref(info))
        self.library.call("fusionSessionGetOutput", self.handle, index, ctypes.byref(data), ctypes.byref(size), ctypes.byref(rank), ctypes.byref(dims))
        raw = ctypes.string_at(data.value, size.value) if size.value else b""
        return np.frombuffer(raw, DTYPES[info.dtype]).reshape([dims[i] for i in range(rank.value)]).copy()

    @property
    def length(self):
        """Tokens in the caches."""
        return self.library.c.fusionSessionLength(self.handle)

    @property
    def lengths(self):
        """Tokens cached of each sequence of a batch (--kv-lengths=own); empty where the batch has one length."""
        return [self.library.c.fusionSessionSequenceLength(self.handle, i) for i in range(self.library.c.fusionSessionSequenceCount(self.handle))]

    def keep(self, counts):
        """How many tokens of the next run each sequence keeps; the rest of its row is padding."""
        self.library.call("fusionSessionSetTokenCounts", self.handle, (ctypes.c_int64 * len(counts))(*counts), len(counts))

    def truncate(self, length):
        self.library.call("fusionSessionTruncate", self.handle, ctypes.c_int64(length))

    def reset(self):
        self.library.call("fusionSessionReset", self.handle)

    def step(self, ids):
        """Feeds token ids; the chosen next one."""
        array, chosen = (ctypes.c_int64 * len(ids))(*ids), ctypes.c_int64()
        self.library.call("fusionSessionStep", self.handle, array, ctypes.c_int64(len(ids)), ctypes.byref(chosen))
        return chosen.value

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.c.fusionSessionDestroy(self.handle)
