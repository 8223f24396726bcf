"""engine.py make FILE: a small llama model by the gguf package. engine.py load LIBRARIES FILE: whether llama.cpp, whose shared libraries are
in that directory, loads the file with all its tensors checked, and the name and the chat template that it finds. A file that it
refuses may end the process."""
import ctypes, os, sys

LAYERS, WIDTH, HEADS, FORWARD = 1, 32, 2, 64


def make(path):
    import numpy as np
    from gguf import GGUFWriter
    w = GGUFWriter(path, "llama")
    w.add_name("made")
    w.add_context_length(64)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FORWARD)
    w.add_head_count(HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + list("abcdefgh")
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([-float(i) for i in range(len(tokens))])
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * 8)
    rng = np.random.default_rng(1)
    matrix = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    w.add_tensor("token_embd.weight", matrix(len(tokens), WIDTH))
    w.add_tensor("output_norm.weight", matrix(WIDTH))
    for name, shape in {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH),
                        "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (FORWARD, WIDTH), "ffn_up": (FORWARD, WIDTH),
                        "ffn_down": (WIDTH, FORWARD)}.items():
        w.add_tensor(f"blk.0.{name}.weight", matrix(*shape))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Params(ctypes.Structure):  # longer than the engine's, whose fields are its own business
    _fields_ = [("bytes", ctypes.c_uint8 * 512)]


def load(libraries, path):
    os.environ["GGML_NO_BACKTRACE"] = "1"  # an assertion would wait for a debugger
    open_library = lambda start: ctypes.CDLL(os.path.join(libraries, next(f for f in sorted(os.listdir(libraries)) if f.startswith(start))), ctypes.RTLD_GLOBAL)
    open_library("libggml-base")
    ggml, llama = open_library("libggml.v"), open_library("libllama.v")
    ggml.ggml_backend_load_all_from_path(libraries.encode())
    llama.llama_backend_init()
    llama.llama_model_default_params.restype = Params
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
    llama.llama_model_load_from_file.restype = ctypes.c_void_p
    params = llama.llama_model_default_params()
    params.bytes[73] = 1  # check_tensors, of this release
    model = llama.llama_model_load_from_file(path.encode(), params)
    if not model:
        return 1
    text = ctypes.create_string_buffer(1 << 16)
    llama.llama_model_meta_val_str.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    for key in "general.name", "tokenizer.chat_template":
        if llama.llama_model_meta_val_str(model, key.encode(), text, len(text)) >= 0:
            print(f"{key}={text.value.decode()!r}")
    return 0


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    code = load(*sys.argv[2:])
    sys.stdout.flush()
    os._exit(code)
