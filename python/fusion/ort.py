"""The same models through onnxruntime's CPU provider: the independent voice of tests and benchmarks."""
import time

import numpy as np
import onnx
import onnxruntime as ort


def session(path, threads=None, noted_shapes=True):
    """Without `noted_shapes`, those that the file gives for inner values are dropped: some exporters' are wrong."""
    o = ort.SessionOptions()
    o.log_severity_level = 3
    if threads:
        o.intra_op_num_threads = threads
    source = str(path)
    if not noted_shapes:
        model = onnx.load(path)
        del model.graph.value_info[:]
        source = model.SerializeToString()
    return ort.InferenceSession(source, o, providers=["CPUExecutionProvider"])


class Decoder:
    """A decoder with past and present caches under any of the exporters' names, stepped greedily."""

    def __init__(self, path, threads=None, head_dim=None, noted_shapes=True):
        """head_dim is for files that leave the caches' last size open."""
        self.session = session(path, threads, noted_shapes)
        self._inputs = {i.name: i for i in self.session.get_inputs()}
        self._past = [n for n in self._inputs if "past" in n]
        self._outputs = [o.name for o in self.session.get_outputs()]
        self._logits = next(n for n in self._outputs if "logits" in n)
        present = [n for n in self._outputs if n != self._logits]
        if len(self._past) != len(present):
            raise ValueError(f"{path}: {len(self._past)} past inputs and {len(present)} present outputs")
        by_name = [n.replace("past_key_values", "present") for n in self._past]
        self._present = by_name if set(by_name) == set(present) else present
        self._head_dim = head_dim
        self.reset()

    def reset(self):
        self.length = 0
        self._cache = {}
        for n in self._past:
            i = self._inputs[n]
            dtype = np.float16 if "float16" in i.type else np.float32
            head_dim = i.shape[3] if isinstance(i.shape[3], int) else self._head_dim
            if head_dim is None:
                raise ValueError(f"{n}: the file leaves the head size open; give head_dim")
            self._cache[n] = np.zeros([1, i.shape[1], 0, head_dim], dtype)

    def step(self, ids):
        """Feeds ids after what is cached; returns the logits of the last of them."""
        n, total = len(ids), self.length + len(ids)
        known = {"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, total), np.int64),
                 "position_ids": np.arange(self.length, total, dtype=np.int64)[None]}
        feeds = {k: v for k, v in known.items() if k in self._inputs} | self._cache
        outputs = dict(zip(self._outputs, self.session.run(None, feeds)))
        self._cache = {p: outputs[q] for p, q in zip(self._past, self._present)}
        self.length = total
        return outputs[self._logits][0, -1]

    def generate(self, prompt, count, forced=()):
        """Greedy tokens; with `forced`, those are fed instead of the chosen ones."""
        self.reset()
        tokens, logits = [], self.step(list(prompt))
        for i in range(count):
            tokens.append(int(logits.argmax()))
            if i + 1 < count:
                logits = self.step([forced[i] if i < len(forced) else tokens[-1]])
        return tokens

    def rates(self, prompt, count):
        """(prefill, decode) in tokens a second."""
        self.reset()
        start = time.perf_counter()
        token = int(self.step(list(prompt)).argmax())
        middle = time.perf_counter()
        for _ in range(count):
            token = int(self.step([token]).argmax())
        return len(prompt) / (middle - start), count / (time.perf_counter() - middle)
