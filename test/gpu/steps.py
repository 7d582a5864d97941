"""A thousand decode steps with a growing cache, through one captured graph: forced random tokens, so that every step stands for
itself, against a forward pass in fp64 and against the host."""
import json
import pathlib
import tempfile

import numpy as np

from fusion.builders import random_llama

PROMPT, STEPS = 5, 1000
NOISE = {"float": 2e-3, "bf16": 0.15}  # between the two best logits, of deviation 1


def generate(artifact, device, ids, tools):
    out = tools.call(tools.OPTIONS.bin / "fusion-run", artifact, f"--device={device}", f"--generate={STEPS}",
                     "--prompt-ids=" + ",".join(map(str, ids[:PROMPT])), "--force-ids=" + ",".join(map(str, ids[PROMPT:])), "--json", timeout=600)
    return json.loads(out)["tokens"]


def check_form(form, tools):
    """What is wrong, or ""; and what to say of it."""
    tmp, config = pathlib.Path(tempfile.mkdtemp(dir=tools.OPTIONS.tmp)), random_llama.SIZES["tiny"]
    random_llama.build(tmp / "m.onnx", config, form, seed=11)
    ids = np.random.default_rng(12).integers(0, config.vocab, PROMPT + STEPS)
    logits = random_llama.forward(tmp / "m.onnx", ids, config)[PROMPT - 1:-1]
    best = np.sort(logits, axis=-1)
    gap = best[:, -1] - best[:, -2]
    decided = gap > NOISE[form]
    target = "host" if tools.OPTIONS.device == "host" else "host,sm_90a"
    tools.call(tools.OPTIONS.bin / "fusion-compile", tmp / "m.onnx", "-o", tmp / "m.fusion", f"--target={target}", "--kv-cache=state", f"--max-context={PROMPT + STEPS + 8}")
    found = {device: np.array(generate(tmp / "m.fusion", device, ids, tools)) for device in {"host", tools.OPTIONS.device}}
    problems = []
    for device, tokens in found.items():
        wrong = np.flatnonzero((tokens != logits.argmax(-1)) & decided)
        if len(wrong):
            problems.append(f"{device}: {len(wrong)} of {decided.sum()} decided steps differ from fp64, first step {wrong[0]}")
    # Where the devices differ, the two best logits are so close that rounding may choose.
    differ = np.flatnonzero(np.ptp(list(found.values()), axis=0))
    note = f", {len(differ)} differ between devices" + (f", their best logits at most {gap[differ].max():.1e} apart" if len(differ) else "")
    return "; ".join(problems), note


def check(tools):
    """Yields (name, what is wrong or "", 0)."""
    for form in NOISE:
        note = ""
        try:
            problem, note = check_form(form, tools)
        except Exception as e:  # noqa: BLE001
            problem = f"{type(e).__name__}: {e}"[:1200]
        yield f"{STEPS} steps {form}{note}", problem, 0.0
