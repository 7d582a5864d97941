"""Sections of the card's benchmark: a Llama-3-8B shape, whole."""
import dataclasses
import json
import time

import torch

import card_llama
from card_measure import Target, Timing, Variant, at_most, graphed, race
from card_points import guarded
from fusion.builders import random_llama

BEST = "torch.compile's best"
BF16_PREFILL = "bf16 prefill of 2048 tokens"


def at_least_tokens(rate):
    return Target(f"at least {rate} tokens/s", rate, lambda t: 1e6 / t["fusion"], most=False)


def generated(bench, form, c):
    """Our decode at a context of 1024 (a token) and a prefill of 2048, in microseconds, by fusion-run; with predictions."""
    start = time.time()
    path = bench.folder / "llama.onnx"
    size = random_llama.build(path, c, form)
    built = time.time()
    report = bench.tool("fusion-compile", path, "-o", bench.folder / "llama.fusion", "--target=sm_90a", "--kv-cache=state", "--max-context=2304", "--logits=last", "--explain=json")
    path.with_name("llama.onnx.data").unlink()
    buckets = {b["name"]: b.get("us_kernels") for b in json.loads(report)["buckets"]}
    print(f"written {size / 1e9:.1f} GB in {built - start:.1f} s, compiled in {time.time() - built:.1f} s", flush=True)
    result = {}
    for prompt, count in ((1024, 64), (2048, 2)):
        ids = ",".join(str(i * 7919 % c.vocab) for i in range(prompt))
        out = json.loads(bench.tool("fusion-run", bench.folder / "llama.fusion", "--device=cuda", f"--generate={count}", f"--prompt-ids={ids}", "--bench=5", "--json"))
        result[prompt] = out
        print(f"  prompt {prompt}: " + ", ".join(f"{k} {v:.1f}" for k, v in out.items() if isinstance(v, float)), flush=True)
    (bench.folder / "llama.fusion").unlink()
    return 1e6 / result[1024]["decode_tokens_per_s"], 2048e6 / result[2048]["prefill_tokens_per_s"], buckets.get("decode")


def add_peers(bench, form, c, decode, prefill):
    """torch.compile's times of a decode step and of a prefill, as far as it gets."""
    try:
        time_peers(bench, form, c, decode, prefill)
    except Exception as e:  # noqa: BLE001 - ours are measured
        print(f"  torch.compile: {type(e).__name__}: {str(e)[:300]}")


def time_peers(bench, form, c, decode, prefill):
    model = card_llama.Llama(c, 2176, card_llama.Int4Linear if form == "int4" else card_llama.Linear)
    for mode in ("default", "max-autotune"):
        if mode != "default" and bench.left < 30:
            print(f"  torch.compile {mode}: left out, no time")
            continue
        model.compile_layers(mode)
        step = card_llama.decode_step(model, 1023)
        seconds = card_llama.warm(step)
        decode[f"compile per layer ({mode}), graph"] = time_of(graphed([step]))
        print(f"  torch.compile {mode}: first step {seconds:.0f} s", flush=True)
    if form == "bf16":
        model.compile_layers("default")
        run = card_llama.prefill(model, 2048)
        card_llama.warm(run)
        prefill["compile per layer (default)"] = time_of((lambda: (run(), torch.cuda.synchronize()), 1), 7)


def time_of(run_and_calls, rounds=15):
    return race([Variant("x", *run_and_calls)], rounds)["x"]


def add_best(times):
    """The fastest peer under a name of its own, for what is asked."""
    others = [t for name, t in times.items() if name != "fusion"]
    return {**times, BEST: min(others, key=lambda t: t.us)} if others else times


@guarded
def whole_model(bench, form, tokens, prefill_target):
    c = dataclasses.replace(random_llama.SIZES["8b"], layers=bench.options.layers)
    decode, prefill, predicted = {}, {}, None
    if not bench.options.peers_only:
        ours, many, predicted = generated(bench, form, c)
        decode["fusion"], prefill["fusion"] = Timing(ours, ours, ours), Timing(many, many, many)
    if not bench.options.ours_only:
        add_peers(bench, form, c, decode, prefill)
        decode, prefill = add_best(decode), add_best(prefill)
    if form == "int4" and (dense := bench.earlier(BF16_PREFILL, "fusion")):
        prefill["fusion, bf16"] = Timing(dense, dense, dense)
    for point, times, target, us in ((f"{form} decode, batch 1, context 1024", decode, at_least_tokens(tokens), predicted),
                                     (f"{form} prefill of 2048 tokens", prefill, prefill_target, None)):
        variants = [Variant(name, lambda: None, predicted_us=us if name == "fusion" else None) for name in times]
        bench.record(f"{point}", variants, times, target)


def model(bench):
    whole_model(bench, "bf16", 255, at_most(1.0, BEST))


def model_int4(bench):
    whole_model(bench, "int4", 560, at_most(1.0, "fusion, bf16", "our bf16 form"))
