"""The tokenizer and the chat form that a GGUF file carries (byte-level BPE, ChatML)."""
import codecs
import re

import gguf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from fusion.gguf_file import ModelError

# gguf's token types: those of single, unsplittable tokens.
CONTROL, USER_DEFINED = 3, 4
_SPLITS = {
    "smollm": lambda: [pre_tokenizers.Digits(individual_digits=True)],
    "gpt-2": lambda: [],
}


def _byte_of_character():
    """Byte-level BPE writes each byte as a printable character: the inverse of that table."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}


class ChatTokenizer:
    def __init__(self, gguf_path):
        fields = gguf.GGUFReader(gguf_path).fields
        get = lambda key, default=None: fields[key].contents() if key in fields else default
        kind, pre = get("tokenizer.ggml.model"), get("tokenizer.ggml.pre", "gpt-2")
        if kind != "gpt2" or pre not in _SPLITS:
            raise ModelError(f"{gguf_path}: expected a byte-level BPE tokenizer split as {' or '.join(_SPLITS)}, found {kind}/{pre}")
        self._names, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
        merges = [tuple(m.split(" ")) for m in get("tokenizer.ggml.merges")]
        self._special = {i for i, t in enumerate(types) if t in (CONTROL, USER_DEFINED)}
        self._bpe = Tokenizer(models.BPE({t: i for i, t in enumerate(self._names)}, merges))
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence([*_SPLITS[pre](), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        self._bpe.add_special_tokens([AddedToken(self._names[i], normalized=False) for i in sorted(self._special)])
        self._bytes = _byte_of_character()
        self.first = [get("tokenizer.ggml.bos_token_id")] if get("tokenizer.ggml.add_bos_token", False) else []
        self.end = get("tokenizer.ggml.eos_token_id")
        self._template = get("tokenizer.chat_template", "")

    def encode(self, text):
        return self.first + self._bpe.encode(text).ids

    def bytes_of(self, token):
        """The token's text as bytes; a token may end inside a character. Control tokens have none."""
        return b"" if token in self._special else bytes(self._bytes[c] for c in self._names[token])

    def decode(self, tokens):
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace")

    def stream(self, tokens):
        """Yields text as tokens come, never a broken character."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for t in tokens:
            if text := decoder.decode(self.bytes_of(t)):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    def chat(self, messages):
        """The ids of a conversation [(role, text), ...], up to where the assistant speaks."""
        if "<|im_start|>" not in self._template:
            raise ModelError("the file's chat template is not of the form <|im_start|>role ... <|im_end|>; use --raw")
        if not messages or messages[0][0] != "system":
            # The template's own default; files without one begin with the user.
            if m := re.search(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", self._template, re.S):
                messages = [("system", m[1]), *messages]
        text = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
        return self.encode(text + "<|im_start|>assistant\n")
