#!/usr/bin/env python3
"""Checks the packed tools of preset release-static as another machine would use them: unpacked elsewhere, without this checkout or
an environment. What they link, which glibc they ask for, and the greedy tokens of a tiny SmolLM2-shaped decoder against numpy.

    check_bundle.py build/release-static/fusion.tar.xz
"""
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "e2e"), str(HERE.parent / "python")]

import tiny_llama  # noqa: E402
from fusion.builders import llama  # noqa: E402

GLIBC = 36  # 2.36, Debian 12
GLIBC_LIBRARIES = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2"}
PROMPT, COUNT = [5, 63, 0, 17], 12


def run(folder, *command):
    """Runs a program of the bundle in an empty environment."""
    p = subprocess.run(["env", "-i", "PATH=/usr/bin:/bin", *map(str, command)], cwd=folder, capture_output=True, text=True, timeout=300)
    if p.returncode:
        sys.exit(f"check_bundle: {' '.join(map(str, command))}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


def check_links(binary):
    needed = {pathlib.Path(line.split()[0]).name for line in run(".", "ldd", binary).splitlines() if line.split()}
    if needed - GLIBC_LIBRARIES:
        sys.exit(f"check_bundle: {binary.name} links {', '.join(sorted(needed - GLIBC_LIBRARIES))}, expected glibc alone")
    newest = max(int(n) for n in re.findall(rb"GLIBC_2\.(\d+)", binary.read_bytes()))
    if newest > GLIBC:
        sys.exit(f"check_bundle: {binary.name} asks for glibc 2.{newest}, expected at most 2.{GLIBC}")


def greedy(gguf):
    ids = list(PROMPT)
    for _ in range(COUNT):
        ids.append(int(tiny_llama.forward(gguf, ids)[-1].argmax()))
    return ids[len(PROMPT):]


def main():
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        with tarfile.open(sys.argv[1]) as tar:
            tar.extractall(tmp)
        bin = tmp / "fusion/bin"
        for binary in ("fusion", "fusion-run"):
            check_links(bin / binary)
        for tool in ("fusion-compile", "fusion-opt", "fusion-lsp-server", "fusion-reduce", "fusion-run"):
            run(tmp, bin / tool, "--help")
        tiny_llama.write(tmp / "t.gguf")
        expected = greedy(tmp / "t.gguf")
        for form in llama.FORMS:
            llama.build(tmp / "t.gguf", tmp / f"{form}.onnx", form)
            run(tmp, bin / "fusion-compile", f"{form}.onnx", "-o", f"{form}.fusion", "--kv-cache=state", "--max-context=64")
            made = json.loads(run(tmp, bin / "fusion-run", f"{form}.fusion", f"--generate={COUNT}", "--prompt-ids=" + ",".join(map(str, PROMPT)), "--json"))
            if made["tokens"] != expected:
                sys.exit(f"check_bundle: {form}: tokens {made['tokens']}, expected {expected}")
    print("check_bundle: passed")


if __name__ == "__main__":
    main()
