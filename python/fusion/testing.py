"""Helpers of the end-to-end tests: compile an ONNX model, run it on arrays, compare with a reference."""
import pathlib
import re
import subprocess
import tempfile
import threading

import ml_dtypes
import numpy as np
import onnx


class ToolError(Exception):
    """A tool ended with a code other than 0."""

    def __init__(self, command, code, text):
        super().__init__(f"exit {code}: {' '.join(map(str, command))}\n{text[-3000:]}")
        self.code, self.text = code, text


class Tools:
    """The command-line tools of one build."""

    def __init__(self, bin=None):
        self.bin = pathlib.Path(bin) if bin else pathlib.Path(__file__).resolve().parents[2] / "build/dev/bin"

    def call(self, tool, *args, timeout=120):
        """Runs a tool; returns (exit code, stdout, stderr). A negative code is the signal that ended it."""
        p = subprocess.run([str(self.bin / tool), *map(str, args)], capture_output=True, text=True, errors="replace",
                           stdin=subprocess.DEVNULL, timeout=timeout)
        return p.returncode, p.stdout, p.stderr

    def must(self, tool, *args, timeout=120):
        """As call, but any code other than 0 is an error; returns stdout."""
        code, out, err = self.call(tool, *args, timeout=timeout)
        if code:
            raise ToolError([tool, *args], code, err + out)
        return out

    def compile(self, model, artifact, *options):
        return self.must("fusion-compile", model, "-o", artifact, "--target=host", *options)

    def run(self, artifact, feeds, *options):
        """Runs an artifact on named arrays; returns the outputs by the name of their file."""
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            args = []
            for i, (name, array) in enumerate(feeds.items()):
                np.save(tmp / f"in{i}.npy", array)
                args += ["--input", f"{name}={tmp / f'in{i}.npy'}"]
            (tmp / "out").mkdir()
            self.must("fusion-run", artifact, "--device=host", *args, "--output-dir", tmp / "out", *options)
            return {f.stem: load_npy(f) for f in sorted((tmp / "out").glob("*.npy"))}


class Batch:
    """The tools in one process that stays alive between calls; the interface of Tools. A crash ends only the call that made it."""

    def __init__(self, bin):
        self.program = pathlib.Path(bin).parent / "unittests" / "fusion-batch"
        self._process = None
        self._tmp = tempfile.TemporaryDirectory()
        self._text = pathlib.Path(self._tmp.name) / "text"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()
        self._tmp.cleanup()

    def _stop(self):
        if self._process:
            self._process.stdin.close()
            self._process.kill()
            self._process.stdout.close()
            self._process.wait()
            self._process = None

    def call(self, tool, *args, timeout=120):
        """Runs a tool; returns (exit code, nothing, what it printed). A negative code is the signal that ended it."""
        fields = [str(self._text), tool, *map(str, args)]
        if any("\t" in f or "\n" in f for f in fields):
            raise ValueError(f"tabs and line breaks part commands: {fields}")
        if not self._process:
            self._process = subprocess.Popen([str(self.program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(timeout, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write("\t".join(fields) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        timer.cancel()
        code = int(answer) if answer else self._process.wait()
        if not answer:
            self._stop()
        return code, "", self._text.read_text(errors="replace") if self._text.exists() else ""

    must, compile, run = Tools.must, Tools.compile, Tools.run


tools = Tools()  # the runner of test/e2e sets its folder


def load_npy(path):
    """Reads .npy; bfloat16 is stored as a 2-byte void type."""
    y = np.load(path)
    return y.view(ml_dtypes.bfloat16) if y.dtype.kind == "V" and y.dtype.itemsize == 2 else y


def file_name(output):
    """The stem of the file that fusion-run writes for a graph output."""
    return re.sub(rb"[^A-Za-z0-9._-]", b"_", output.encode()[:200]).decode()


def run_model(model, feeds, *options):
    """Compiles and runs an onnx.ModelProto or a path; returns {graph output: array}."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        if isinstance(model, onnx.ModelProto):
            onnx.save(model, tmp / "model.onnx")
            proto, path = model, tmp / "model.onnx"
        else:
            proto, path = onnx.load(model, load_external_data=False), model
        tools.compile(path, tmp / "model.fusion", *options)
        files = tools.run(tmp / "model.fusion", feeds)
    return {o.name: files[file_name(o.name)] for o in proto.graph.output}


def run_onnxruntime(model, feeds):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.log_severity_level = 4
    # Its optimiser rounds activations to 8 bits in front of 8-bit weights: not what the operators' text says.
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    s = ort.InferenceSession(source, o, providers=["CPUExecutionProvider"])
    return dict(zip((x.name for x in s.get_outputs()), s.run(None, feeds)))


def error(found, reference):
    """Norm of the difference over the norm of the reference, in fp64."""
    if found.shape != reference.shape:
        raise AssertionError(f"shape {found.shape}, expected {reference.shape}")
    f, r = found.astype(np.float64), reference.astype(np.float64)
    if (np.isnan(f) != np.isnan(r)).any():
        raise AssertionError("NaN in other places than in the reference")
    with np.errstate(invalid="ignore"):
        d = np.where((f == r) | np.isnan(r), 0.0, f - r)
    r = np.where(np.isfinite(r), r, 0.0)
    return float(np.linalg.norm(d) / max(np.linalg.norm(r), 1e-30)) if d.any() else 0.0
