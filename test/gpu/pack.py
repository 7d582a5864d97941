#!/usr/bin/env python3
"""Packs tools, tests and benchmarks into one compressed folder for a machine with a card: no LLVM, no sources, no build there.

    pack.py [--build build/release-static] [--out build/card.tar.gz] [--models ARCHIVE]

There (Python with numpy, onnx and ml_dtypes; ptxas of a CUDA toolkit; torch and triton for the benchmarks):

    tar -xf card.tar.gz && cd card && bash test.sh && bash bench.sh

Arguments go to test/gpu/run.py and python/bench/card.py. --models adds a tar archive of exported
models with stored outputs.
"""
import argparse
import io
import pathlib
import subprocess
import sys
import tarfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("bin/fusion", "bin/fusion-run", "bin/kernel-sweep", "lib/libfusion_runtime.so")
LINKS = ("fusion-compile", "fusion-opt")
UNPACK = "[ -e models ] || { mkdir models && [ ! -e models.tar ] || tar -C models -xf models.tar; }\n"
SCRIPTS = {"test.sh": 'test/gpu/run.py --bin bin --models models "$@"', "bench.sh": 'python/bench/card.py --bin bin "$@"'}


def add_text(tar, name, text):
    entry = tarfile.TarInfo(f"card/{name}")
    data = text.encode()
    entry.size, entry.mode = len(data), 0o755
    tar.addfile(entry, io.BytesIO(data))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/release-static")
    p.add_argument("--out", type=pathlib.Path, default=SOURCE / "build/card.tar.gz")
    p.add_argument("--models", type=pathlib.Path)
    a = p.parse_args()
    missing = [str(a.build / f) for f in PROGRAMS if not (a.build / f).exists()]
    if missing:
        sys.exit(f"not built: {', '.join(missing)}; cmake --preset release-static && ninja -C {a.build}")
    files = subprocess.run(["git", "ls-files", "python", "test/gpu"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(a.out, "w:gz", compresslevel=3, dereference=True) as tar:
        for name in files:
            if name.endswith((".py", ".txt", ".json")):
                tar.add(SOURCE / name, f"card/{name}")
        for name in PROGRAMS:
            tar.add(a.build / name, f"card/{name}")
        for name in LINKS:
            link = tarfile.TarInfo(f"card/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "fusion"
            tar.addfile(link)
        if a.models:
            tar.add(a.models, "card/models.tar")
        for name, command in SCRIPTS.items():
            add_text(tar, name, f'#!/bin/bash\ncd "$(dirname "$0")" || exit 1\n{UNPACK}exec python3 {command}\n')
    print(f"{a.out}: {a.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
