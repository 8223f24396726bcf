"""pairs.py DIR: writes small random models of transformers as NAME.safetensors, and as NAME.gguf with which transformers loads the same model.

By hand only, with make.py (interop/quant.sh --renew). The names in a .gguf are what the gguf package makes of Hugging Face's. The rows of a head and the
experts of a layer are put in llama.cpp's order here; that transformers undoes it to the same weights is the proof.
"""
import os, shutil, sys, tempfile, warnings

warnings.filterwarnings("ignore")
import gguf
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig

out = sys.argv[1]
HEADS, SHARED, WIDTH, VOCABULARY, EXPERTS = 4, 2, 32, 24, 3
SIZES = dict(hidden_size=WIDTH, intermediate_size=16, num_hidden_layers=1, num_attention_heads=HEADS, num_key_value_heads=SHARED,
             vocab_size=VOCABULARY, max_position_embeddings=64, tie_word_embeddings=False, torch_dtype="float32")
MODELS = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES | dict(num_attention_heads=1, num_key_value_heads=1), head_dim=16),
    "qwen3moe": Qwen3MoeConfig(**SIZES | dict(num_attention_heads=1, num_key_value_heads=1), head_dim=16, num_experts=EXPERTS, num_experts_per_tok=2,
                               moe_intermediate_size=8),
}
ARCHITECTURES = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}


def by_turns(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write(path, name, config, weights):
    w = gguf.GGUFWriter(path, name)
    w.add_context_length(64)
    w.add_embedding_length(WIDTH)
    w.add_block_count(1)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_vocab_size(VOCABULARY)
    w.add_tokenizer_model("gpt2")
    w.add_token_list([f"t{i}" for i in range(VOCABULARY)])
    w.add_token_merges(["t 0"])
    if name.endswith("moe"):
        w.add_expert_count(EXPERTS)
        w.add_expert_used_count(2)
        w.add_expert_feed_forward_length(config.moe_intermediate_size)
    names = gguf.get_tensor_name_map(ARCHITECTURES[name], 1)
    experts = {}
    for key, t in weights.items():
        a = t.numpy()
        if name == "llama" and key.endswith("q_proj.weight"):
            a = by_turns(a, HEADS)
        if name == "llama" and key.endswith("k_proj.weight"):
            a = by_turns(a, SHARED)
        before, dot, rest = key.partition(".experts.")
        if dot:
            number, _, after = rest.partition(".")
            experts.setdefault(before + dot + after, {})[int(number)] = a
        else:
            w.add_tensor(names.get_name(key, try_suffixes=(".weight", ".bias")), a)
    for key, parts in experts.items():
        w.add_tensor(names.get_name(key, try_suffixes=(".weight",)), np.stack([parts[i] for i in range(EXPERTS)]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


for name, config in MODELS.items():
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        stored = os.path.join(directory, "model.safetensors")
        write(f"{out}/{name}.gguf", name, config, load_file(stored))
        shutil.copy(stored, f"{out}/{name}.safetensors")
        shutil.copy(f"{out}/{name}.gguf", directory)
        loaded = AutoModelForCausalLM.from_pretrained(directory, gguf_file=f"{name}.gguf", config=config).state_dict()
        for key, t in model.state_dict().items():
            assert torch.equal(loaded[key], t), (name, key)
    print(f"{name}: transformers loads the .gguf as the same model")
