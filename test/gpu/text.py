"""Greedy text of a decoder, its cache inside the session, token by token against a reference.

A prompts file is a list of {"ids": [...], "greedy": [...], "margin": [...]}: the prompt, the reference's tokens, and the gap
between its two best logits at each. Where the gap is within the arithmetic's noise either token is right.
"""
import json

NOISE = {"keep": 0.02, "fp16": 0.1, "bf16": 0.5}


def generate(artifact, prompt, tools, *options):
    out = tools.call(tools.OPTIONS.bin / "fusion-run", artifact, f"--device={tools.OPTIONS.device}", f"--generate={len(prompt['greedy'])}",
                     "--prompt-ids=" + ",".join(map(str, prompt["ids"])), "--json", *options)
    return json.loads(out)


def compare(artifact, prompt, noise, tools):
    """What is wrong, or "", and a line about speed."""
    reference, margin = prompt["greedy"], prompt["margin"]
    forced = generate(artifact, prompt, tools, "--force-ids=" + ",".join(map(str, reference)))["tokens"]
    wrong = [i for i, (a, b) in enumerate(zip(forced, reference)) if a != b and margin[i] >= noise]
    if wrong:
        i = wrong[0]
        return f"{len(wrong)} wrong tokens, first at {i}: {forced[i]}, reference {reference[i]} (margin {margin[i]})", ""
    free = generate(artifact, prompt, tools)
    sure = next((i for i, g in enumerate(margin) if g < noise), len(reference))
    if free["tokens"][:sure] != reference[:sure]:
        return "free generation leaves the reference where forced generation does not", ""
    return "", f"prefill {free['prefill_tokens_per_s']:.0f}, decode {free['decode_tokens_per_s']:.1f} tokens/s"


def check(model, references, form, tools):
    """Yields (name, what is wrong or "", 0) for each prompt."""
    artifact = tools.OPTIONS.tmp / "text.fusion"
    name = f"text {model} {form}"
    try:
        tools.compile_model(model, artifact, "--kv-cache=state", "--max-context=1024", f"--compute-type={form}")
    except RuntimeError as e:
        yield name, str(e), 0.0
        return
    for i, prompt in enumerate(json.loads(open(references).read())):
        try:
            problem, speed = compare(artifact, prompt, NOISE[form], tools)
        except (RuntimeError, KeyError, ValueError) as e:
            problem, speed = str(e), ""
        yield f"{name} prompt {i} {speed}", problem, 0.0
