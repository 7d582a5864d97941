#!/usr/bin/env python3
"""Exported models on the host, fused and unfused, against onnxruntime's CPU provider, where it loads the file.

    compare_onnxruntime.py [--bin build/dev/bin] --models DIR

DIR holds NAME.onnx and, for each size, NAME.npz, NAME.1.npz .. with the inputs (keys in:<input>); outputs stored there are not read.
fp32 outputs agree within 2e-5, norm of the difference over the norm; 16-bit ones within 3e-2. A file that onnxruntime does not load is
named with its reason. The last line says `N passed, N failed`.
"""
import argparse
import concurrent.futures as cf
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402

from fusion import stored_models, testing  # noqa: E402
from fusion.stored_models import FORMS, LIMIT_FP32, LIMIT_HALF  # noqa: E402


def check(path):
    """(name, what is wrong or "", why it was skipped or "", worst error)."""
    model = onnx.load(path)
    sizes = [stored_models.read_feeds(f, model) for f in stored_models.sizes(path)]
    if not sizes:
        return path.stem, f"no {path.stem}.npz with inputs", "", 0.0
    try:
        expected = [testing.run_onnxruntime(path, feeds) for feeds in sizes]
    except Exception as e:  # noqa: BLE001 - onnxruntime's exceptions have no common class but this
        return path.stem, "", f"onnxruntime does not run it: {str(e).splitlines()[0][:120]}", 0.0
    problems, worst = [], 0.0
    with tempfile.TemporaryDirectory() as tmp:
        for form, options in FORMS.items():
            try:
                testing.tools.compile(path, f"{tmp}/{form}.fusion", *options)
                for feeds, reference in zip(sizes, expected):
                    found = testing.tools.run(f"{tmp}/{form}.fusion", feeds)
                    for name, error in stored_models.errors(found, reference).items():
                        worst = max(worst, error)
                        if not error <= (LIMIT_FP32 if reference[name].dtype in (np.float32, np.float64) else LIMIT_HALF):
                            problems.append(f"{form}, {name}: {error:.2e} from onnxruntime")
            except (testing.ToolError, AssertionError, KeyError) as e:
                problems.append(f"{form}: {e}")
    return path.stem, "; ".join(problems), "", worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin")
    p.add_argument("--models", type=pathlib.Path, required=True)
    a = p.parse_args()
    testing.tools = testing.Tools(a.bin)
    paths = sorted(a.models.glob("*.onnx"))
    if not paths:
        p.error(f"no model in {a.models}")
    passed = failed = 0
    with cf.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, problem, skipped, worst in pool.map(check, paths):
            if skipped:
                print(f"skip {name}: {skipped}", flush=True)
            elif problem:
                failed += 1
                print(f"FAIL {name}: {problem}", flush=True)
            else:
                passed += 1
                print(f"ok   {name} {worst:.1e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
