#!/usr/bin/env python3
"""Writes a Llama-shaped decoder with random weights: for benchmarks, at the speed of the disk.

    build_llama.py -o MODEL.onnx [--size 8b|1b|tiny] [--layers N] [--form bf16|fp16|float|int4] [--attention concat|gqa] [--seed N]
"""
import argparse
import dataclasses
import pathlib
import time

from fusion.builders import random_llama


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", type=pathlib.Path, required=True)
    p.add_argument("--size", default="8b", choices=random_llama.SIZES)
    p.add_argument("--layers", type=int)
    p.add_argument("--form", default="bf16", choices=random_llama.FORMS)
    p.add_argument("--attention", default="concat", choices=("concat", "gqa"))
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    config, start = random_llama.SIZES[a.size], time.time()
    if a.layers:
        config = dataclasses.replace(config, layers=a.layers)
    size = random_llama.build(a.output, config, a.form, a.attention, a.seed)
    print(f"{a.output}: {config.layers} layers, {size / 1e9:.2f} GB in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
