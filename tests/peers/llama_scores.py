"""The side of llama.cpp in `cargo lab vectors smollm2`: python -c SOURCE

Reads {"file", "texts"} from the standard input: a GGUF file, and texts. Prints the tokens of each text, and the log-prob of every token
that follows another: of the file as it is, whose products take activations of 8 bits, and of the same numbers in f32.
"""

import ctypes
import json
import os
import sys
import tempfile

import llama_cpp as llama
import numpy as np

question = json.load(sys.stdin)
llama.llama_backend_init()
# It reports every tensor; errors raise anyway.
silent = llama.llama_log_callback(lambda level, text, data: None)
llama.llama_log_set(silent, ctypes.c_void_p(0))


def tokens(vocabulary, text):
    raw = text.encode()
    room = (llama.llama_token * (len(raw) + 8))()
    count = llama.llama_tokenize(vocabulary, raw, len(raw), room, len(room), False, True)
    if count < 0:
        raise SystemExit(f"llama.cpp cannot tokenize {text!r}")
    return list(room[:count])


def scores(context, size, ids):
    llama.llama_memory_clear(llama.llama_get_memory(context), True)
    batch = llama.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for at, token in enumerate(ids):
        batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, at, 1, 1
        batch.seq_id[at][0] = 0
    code = llama.llama_decode(context, batch)
    llama.llama_batch_free(batch)
    if code != 0:
        raise SystemExit(f"llama_decode returned {code}")
    found = []
    for at, token in enumerate(ids[1:]):
        logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, at), shape=(size,)).astype(np.float64)
        top = logits.max()
        found.append(float(logits[token] - top - np.log(np.exp(logits - top).sum())))
    return found


def look(file):
    model = llama.llama_model_load_from_file(file.encode(), llama.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot read {file}")
    vocabulary = llama.llama_model_get_vocab(model)
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, 1024, 1024
    # A cache in f16 and flash attention would round what is compared.
    params.type_k = params.type_v = llama.GGML_TYPE_F32
    params.flash_attn_type = 0
    context = llama.llama_init_from_model(model, params)
    encoded = [tokens(vocabulary, text) for text in question["texts"]]
    size = llama.llama_vocab_n_tokens(vocabulary)
    found = [scores(context, size, ids) for ids in encoded]
    llama.llama_free(context)
    llama.llama_model_free(model)
    return encoded, found


with tempfile.TemporaryDirectory() as home:
    wide = os.path.join(home, "f32.gguf")
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = llama.LLAMA_FTYPE_ALL_F32, True
    if llama.llama_model_quantize(question["file"].encode(), wide.encode(), ctypes.byref(params)) != 0:
        raise SystemExit("llama.cpp cannot write the model in f32")
    texts, in_f32 = look(wide)
    _, as_it_is = look(question["file"])
print(json.dumps({"version": llama.__version__, "texts": texts, "f32": in_f32, "as_it_is": as_it_is}))
