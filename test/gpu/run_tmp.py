#!/usr/bin/env python3
"""Everything that is tested on a card, by one command; a message and exit code 0 where there is none.

    run.py [--bin build/dev/bin] [--only kernels,families,models,text,steps,sanitizer] [--family matmul,attention] [--case REGEX]
           [--models DIR] [--text MODEL.onnx=PROMPTS.json ...] [--sample] [--assemble] [--device host] [--jobs N]

kernels    single kernels from their cubins (kernel-sweep): poisoned results, guard zones, aligned and unaligned rows
families   sweeps of families/*.py: small graphs of one family against fp64, each run twice, bit for bit
models     exported models NAME.onnx with NAME.npz, NAME.1.npz (keys in:<input>, out:<output>), fused and unfused
text       greedy text with the cache inside the session, token by token against a reference
steps      1,000 decode steps through one captured graph, against fp64 and the host
sanitizer  compute-sanitizer over a few cases of each family

--assemble only compiles (for a machine without a card), equal graphs once; --device host runs the same on the processor. The last line says
`N passed, N failed`.
"""
import argparse
import concurrent.futures as cf
import ctypes
import hashlib
import importlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # cases share the cores; read when numpy is loaded

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402

import frame  # noqa: E402
from fusion import runtime  # noqa: E402
from fusion.testing import file_name, load_npy  # noqa: E402

SECTIONS = ("kernels", "families", "models", "text", "steps", "sanitizer")
OPTIONS = None  # of the command line, inherited by worker processes
CASES = []


def find_card():
    """None, or why no card of compute capability 9.0 can be used."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver"
    count, major = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "no CUDA device"
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0)
    return None if major.value == 9 else f"a device of compute capability {major.value}.x"


def call(*command, timeout=180, prefix=()):
    """Runs a tool; RuntimeError with the end of what it said unless it ends with 0."""
    command = [*prefix, *map(str, command)]
    try:
        p = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end within {timeout} s: {' '.join(command)[-200:]}")
    if p.returncode:
        raise RuntimeError(f"exit {p.returncode}: {' '.join(command)[-200:]}\n{(p.stderr + p.stdout)[-1500:]}")
    return p.stdout


def compile_model(model, artifact, *options):
    target = "host" if OPTIONS.device == "host" else "sm_90a"
    return call(OPTIONS.bin / "fusion-compile", model, "-o", artifact, f"--target={target}", "--ptxas=/tmp/attn5/wrap/ptxas", *options)


def run_model(artifact, feeds, folder, prefix=(), timeout=180):
    """Runs an artifact; returns {file stem: array}."""
    folder.mkdir()
    arguments = []
    for i, (name, array) in enumerate(feeds.items()):
        np.save(folder / f"in{i}.npy", array)
        arguments += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    (folder / "out").mkdir()
    call(OPTIONS.bin / "fusion-run", artifact, f"--device={OPTIONS.device}", *arguments, "--output-dir", folder / "out", prefix=prefix, timeout=timeout)
    return {f.stem: load_npy(f) for f in (folder / "out").glob("*.npy")}


# Families

class Worker:
    """Runs artifacts inside this process: one context on the card for many cases. A card that faulted, or a case that this cannot
    express, leaves it to fusion-run, a process a run."""
    library = faulted = None

    @classmethod
    def outputs(cls, artifact, feeds):
        """Two results of each output. Before each, the session runs on other data, so that nothing is right by what was there."""
        cls.library = cls.library or runtime.Library(runtime.find_library(OPTIONS.bin))
        model = runtime.Model(artifact, OPTIONS.device, cls.library)
        found = []
        for _ in range(2):
            session = model.session()
            for data in ({k: decoy(a) for k, a in feeds.items()}, feeds):
                session.reset()
                for name, array in data.items():
                    session.bind(name, np.ascontiguousarray(array))
                session.run()
            found.append({file_name(name): session.output(name) for name in model.outputs})
        return found


def decoy(array):
    """The same numbers in another order where they are data, not places."""
    if array.dtype.kind in "iub" or not array.size:
        return array
    return np.ascontiguousarray(array.ravel()[::-1].reshape(array.shape))


def run_twice(artifact, feeds, folder):
    """Two runs of an artifact, as run_model gives them."""
    if not Worker.faulted and not OPTIONS.isolate:
        watch = threading.Timer(60, hung, [folder])
        watch.start()
        try:
            return Worker.outputs(artifact, feeds)
        except runtime.RuntimeFault:
            Worker.faulted = True  # the context may be lost
            raise
        except (KeyError, ValueError, TypeError):
            pass
        finally:
            watch.cancel()
    return [run_model(artifact, feeds, folder / name) for name in "ab"]


def hung(folder):
    """Ends the process, whose kernel does not."""
    (folder / "hung").touch()
    os._exit(3)


def load_cases():
    for path in sorted((HERE / "families").glob("*.py")):
        if path.stem.startswith("_") or (OPTIONS.family and path.stem not in OPTIONS.family):
            continue
        for case in importlib.import_module(f"families.{path.stem}").cases(OPTIONS.sample):
            case.name = f"{path.stem}/{case.name}"
            if not OPTIONS.case or re.search(OPTIONS.case, case.name):
                CASES.append(case)


def first_of_graph(model, options):
    """Whether no case before had this graph: the same but for the numbers of its large weights. Their kernels are equal."""
    graph = onnx.ModelProto()
    graph.CopyFrom(model)
    for weight in graph.graph.initializer:
        if len(weight.raw_data) > 256:
            weight.raw_data = len(weight.raw_data).to_bytes(8, "little")
    key = hashlib.sha256(graph.SerializeToString(deterministic=True) + repr(options).encode()).hexdigest()
    try:
        (OPTIONS.tmp / f"graph-{key}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def check_case(index, prefix=(), timeout=180):
    """(name, what is wrong or "", error in units of what is allowed)."""
    case, worst = CASES[index], 0.0
    tmp = pathlib.Path(tempfile.mkdtemp(dir=OPTIONS.tmp))
    try:
        built = case.build()
        if OPTIONS.assemble and not first_of_graph(built.model, case.options):
            return case.name, "", worst
        onnx.save(built.model, tmp / "m.onnx")
        compile_model(tmp / "m.onnx", tmp / "m.fusion", *case.options)
        if OPTIONS.assemble:
            return case.name, "", worst
        if prefix:
            first = second = run_model(tmp / "m.fusion", built.feeds, tmp / "a", prefix, timeout)
        else:
            first, second = run_twice(tmp / "m.fusion", built.feeds, tmp)
        problems = []
        for name, expected in built.expected.items():
            text, ratio = frame.check(first[file_name(name)], expected)
            worst = max(worst, ratio)
            if text:
                problems.append(f"{name}: {text}")
        problems += [f"{k}: two runs differ" for k, y in first.items() if y.tobytes() != second[k].tobytes()]
        return case.name, "; ".join(problems), worst
    except Exception as e:  # noqa: BLE001 - a case must not end the sweep
        return case.name, f"{type(e).__name__}: {e}"[:1200], worst
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def report(result, count):
    name, problem, ratio = result
    count[bool(problem)] += 1
    if problem:
        print(f"FAIL {name}: {problem}", flush=True)
    elif OPTIONS.verbose:
        print(f"ok   {name}" + (f" ({ratio:.2f} of what is allowed)" if ratio else ""), flush=True)


def families(count):
    load_cases()
    left = sweep(range(len(CASES)), OPTIONS.jobs, count)
    if left:  # a process died: its case and those behind it run again, each in processes of its own
        report(("families", f"a worker ended early, {len(left)} cases run again", 0.0), count)
        OPTIONS.isolate = True
        for i in sweep(left, OPTIONS.jobs, count):
            report((CASES[i].name, "ends the process that runs it", 0.0), count)


def sweep(indices, jobs, count):
    """Checks cases in parallel; those that were not finished because a process died."""
    context, left = multiprocessing.get_context("fork"), []
    with cf.ProcessPoolExecutor(jobs, context) as pool:
        futures = {pool.submit(check_case, i): i for i in indices}
        for future in cf.as_completed(futures):
            try:
                report(future.result(), count)
            except cf.process.BrokenProcessPool:
                left.append(futures[future])
    return sorted(left)


def sanitizer(count):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool or OPTIONS.device == "host":
        print("sanitizer: skipped, no compute-sanitizer")
        return
    if not CASES:
        load_cases()
    first = {}  # of each kind, which is the smallest
    for i, case in enumerate(CASES):
        first.setdefault(re.match(r"[^/]*/[a-z]*", case.name).group(), i)
    work = [(i, (tool, f"--tool={check}", "--error-exitcode=9", "--print-limit=3")) for check in ("memcheck", "racecheck") for i in first.values()]
    with cf.ThreadPoolExecutor(max(1, OPTIONS.jobs // 2)) as pool:
        for (_, prefix), (name, problem, ratio) in zip(work, pool.map(lambda w: check_case(*w, timeout=120), work)):
            report((f"{prefix[1].partition('=')[2]} {name}", problem, ratio), count)


# Other sections

def kernels(count):
    folder, program = OPTIONS.kernels, OPTIONS.bin / "kernel-sweep"
    if OPTIONS.device == "host":
        print("kernels: skipped, they need a card")
        return
    if not folder:
        folder = OPTIONS.tmp / "kernels"
        call(sys.executable, HERE / "sweep.py", "--out", folder, *["--sample"] * OPTIONS.sample)
        call(OPTIONS.bin / "fusion-opt", folder / "sweep.mlir", f"--fusion-assemble-hopper=directory={folder}", "-o", "/dev/null", timeout=600)
    if OPTIONS.assemble:
        count[0] += 1
        return
    try:
        out = call(program, folder, "--check-only", timeout=300)
        print(out.strip().splitlines()[-1])
        count[0] += 1
    except RuntimeError as e:
        report(("kernels", str(e), 0.0), count)


def models(count):
    import models as exported
    if not OPTIONS.models:
        print("models: skipped, no --models DIR")
        return
    paths = sorted(OPTIONS.models.glob("*.onnx"))
    if OPTIONS.sample:
        paths = paths[::8]
    with cf.ThreadPoolExecutor(OPTIONS.jobs) as pool:
        for result in pool.map(lambda path: exported.check(path, sys.modules[__name__]), paths):
            report(result, count)


def text(count):
    import text as prompts
    if not OPTIONS.text:
        print("text: skipped, no --text MODEL.onnx=PROMPTS.json")
    for pair in OPTIONS.text:
        model, _, references = pair.rpartition("=")
        for form in ("keep", "bf16"):
            for result in prompts.check(model, references, form, sys.modules[__name__]):
                report(result, count)


def steps(count):
    import steps as decode
    for result in decode.check(sys.modules[__name__]):
        report(result, count)


def main():
    global OPTIONS
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build/dev/bin")
    p.add_argument("--only", type=lambda s: s.split(","), default=list(SECTIONS))
    p.add_argument("--family", type=lambda s: s.split(","))
    p.add_argument("--case", help="regular expression on the names of cases")
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--text", action="append", default=[], metavar="MODEL.onnx=PROMPTS.json")
    p.add_argument("--kernels", type=pathlib.Path, help="folder of assembled kernels (default: assembled now)")
    p.add_argument("--device", default="cuda", choices=("cuda", "host"))
    p.add_argument("--sample", action="store_true", help="the cases of the normal test run only")
    p.add_argument("--assemble", action="store_true", help="compile, run nothing")
    p.add_argument("--jobs", type=int, default=min(16, os.cpu_count()))
    p.add_argument("--isolate", action="store_true", help="every run of a family's case in a process of its own")
    p.add_argument("--verbose", action="store_true", help="name what passes")
    OPTIONS = p.parse_args()
    if unknown := set(OPTIONS.only) - set(SECTIONS):
        p.error(f"unknown sections {sorted(unknown)}, expected {', '.join(SECTIONS)}")
    missing = find_card() if OPTIONS.device == "cuda" and not OPTIONS.assemble else None
    if missing:
        print(f"skipped: {missing}")
        return
    OPTIONS.bin = OPTIONS.bin.resolve()
    total = [0, 0]
    with tempfile.TemporaryDirectory() as tmp:
        OPTIONS.tmp = pathlib.Path(tmp)
        for name in OPTIONS.only:
            count, start = [0, 0], time.time()
            if OPTIONS.assemble and name in ("text", "steps", "sanitizer"):
                continue
            globals()[name](count)
            print(f"== {name}: {count[0]} passed, {count[1]} failed in {time.time() - start:.0f} s", flush=True)
            total = [a + b for a, b in zip(total, count)]
    print(f"{total[0]} passed, {total[1]} failed")
    sys.exit(bool(total[1]))


if __name__ == "__main__":
    main()
