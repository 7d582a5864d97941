#!/usr/bin/env python3
"""Packs what the sweep of generated kernels needs on a machine with a card into one folder.

    pack.py --build build/dev --out build/gpu-pack [--sample]

There: `bash run.sh [--seed=N] [--check-only]`. The folder holds the driver (and its source, in case it does not run there), the
cubins and the list of cases; no compiler and no toolkit is needed.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--fusion-opt", type=pathlib.Path, help="default: that of the build")
    p.add_argument("--sample", action="store_true", help="the cases of the normal test run only")
    a = p.parse_args()
    kernels, src = a.out / "kernels", a.out / "src"
    shutil.rmtree(a.out, ignore_errors=True)
    (src / "fusion/Support").mkdir(parents=True)
    subprocess.run([sys.executable, HERE / "sweep.py", "--out", kernels] + ["--sample"] * a.sample, check=True)
    subprocess.run([a.fusion_opt or a.build / "bin/fusion-opt", kernels / "sweep.mlir",
                    f"--fusion-assemble-hopper=directory={kernels}", "-o", "/dev/null"], check=True)
    for path in kernels.iterdir():
        if path.suffix not in (".cubin", ".txt"):
            path.unlink()
    for name in ("KernelSweep.cpp", "Sweep.cpp", "Sweep.h", "Cuda.h"):
        shutil.copy(HERE / name, src)
    shutil.copy(SOURCE / "lib/Support/SymExpr.cpp", src)
    shutil.copy(SOURCE / "include/fusion/Support/SymExpr.h", src / "fusion/Support")
    shutil.copy(a.build / "bin/kernel-sweep", a.out)
    shutil.copy(HERE / "kernel-sweep.sh", a.out / "run.sh")
    size = sum(f.stat().st_size for f in a.out.rglob("*") if f.is_file())
    print(f"{a.out}: {len(list(kernels.glob('*.cubin')))} kernels, {size / 1e6:.1f} MB; there: bash run.sh")


if __name__ == "__main__":
    main()
