"""The models that language_peers.py measures: Qwen2 shapes with random weights, as folders for
transformers and Cohort and as GGUF files for llama.cpp. Runs in the virtual environment of the
peers: `peer_models.py FOLDER SHAPE f32|bf16`.
"""

import json
import os
import sys

SHAPES = {
    "0.5b": {  # Qwen2.5-0.5B
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "rope_theta": 1e6,
    },
    "25m": {
        "vocab_size": 32768,
        "hidden_size": 384,
        "intermediate_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "rope_theta": 1e6,
    },
    "addition": {  # the policy of configs/arithmetic_rlvr.yaml
        "vocab_size": 32,
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rope_theta": 1e4,
    },
}


def byte_letters():
    """Returns the printable letter of each byte, as byte-level tokenizers write it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    return [letters[byte] for byte in range(256)]


def tokenizer_of(vocab_size):
    """A byte is a token; all further ids but two have names that no text is read as."""
    if vocab_size < 256:
        letters = list("0123456789+=,;")
    else:
        letters = byte_letters()
    special = ["<|end|>", "<|pad|>"]
    names = letters + special + [f"w{i:06d}" for i in range(len(letters) + 2, vocab_size)]
    vocab = {name: i for i, name in enumerate(names)}
    added = [
        {
            "id": vocab[name],
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for name in special
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": vocab,
        "merges": [],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**level, "use_regex": True},
        "post_processor": None,
        "decoder": {**level, "use_regex": True},
        "model": model,
    }


def write_folder(folder, shape, dtype):
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(
        **SHAPES[shape],
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        use_sliding_window=False,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():  # zero biases would hide a runner that forgets them
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.normal_(0, 0.02)
    model = model.to(torch.bfloat16 if dtype == "bf16" else torch.float32)
    model.save_pretrained(folder)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer_of(config.vocab_size), file, ensure_ascii=False)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|end|>",
                "pad_token": "<|pad|>",
                "model_max_length": 4096,
                "clean_up_tokenization_spaces": False,
            },
            file,
        )
    return model


GGUF_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """Returns the name that llama.cpp's Qwen2 gives a parameter."""
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_PARTS[part]}.{kind}"


def write_gguf(path, model, dtype):
    import gguf
    import torch

    config = model.config
    is_half = dtype == "bf16"
    writer = gguf.GGUFWriter(path, "qwen2")
    kind = gguf.LlamaFileType.MOSTLY_BF16 if is_half else gguf.LlamaFileType.ALL_F32
    writer.add_file_type(kind)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("no_vocab")
    for name, weight in model.named_parameters():
        weight = weight.detach()
        if is_half and weight.dim() == 2:
            halves = weight.contiguous().view(torch.int16).numpy().view("uint16")
            writer.add_tensor(
                gguf_name(name), halves, raw_dtype=gguf.GGMLQuantizationType.BF16
            )
        else:  # norms and biases stay f32 in every file of llama.cpp
            writer.add_tensor(gguf_name(name), weight.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder, shape, dtype = sys.argv[1:4]
    os.makedirs(folder, exist_ok=True)
    model = write_folder(folder, shape, dtype)
    if shape != "addition":
        write_gguf(os.path.join(folder, "model.gguf"), model, dtype)
    with open(os.path.join(folder, "made"), "w", encoding="utf-8") as file:
        file.write("by bench/peers/peer_models.py\n")


if __name__ == "__main__":
    main()
