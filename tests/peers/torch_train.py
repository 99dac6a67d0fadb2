"""PyTorch's side of the GPU kit's training step: python -c SOURCE SETTING, where SETTING is JSON. Prints one JSON object.

Parameters, optimizer and loss in f32, products in bf16 by autocast, attention by scaled_dot_product_attention: what a user of
`transformers` would have it do. What does not fit into memory is tried with activations that are recomputed, then in twice as many parts.
"""

import gc
import json
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

setting = json.loads(sys.argv[1])
device, sequences, length = setting["device"], setting["sequences"], setting["length"]
cuda = device == "cuda"
torch.manual_seed(0)
# What stays f32 may use TF32, as ours does.
torch.backends.cuda.matmul.allow_tf32 = True
transformers.logging.set_verbosity_error()
config = AutoConfig.from_pretrained(setting["model"])
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa").to(device)
model.config.use_cache = False
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0, fused=cuda)
ids = torch.randint(0, config.vocab_size, (sequences, length), device=device)


def clock():
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def step(parts):
    optimizer.zero_grad(set_to_none=True)
    for part in ids.chunk(parts):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=cuda):
            hidden = model.model(part[:, :-1]).last_hidden_state
        # The loss of a piece of rows at a time, as ours has it: the whole logits would take more than all else.
        flat, targets = hidden.reshape(-1, hidden.shape[-1]), part[:, 1:].reshape(-1)
        leaf = flat.detach().requires_grad_()
        for rows, wanted in zip(leaf.split(4096), targets.split(4096)):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=cuda):
                logits = model.lm_head(rows)
            loss = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
            (loss / (ids.numel() - sequences)).backward()
        flat.backward(leaf.grad)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


parts, seconds, recompute = 1, [], False
while len(seconds) < setting["steps"] + 1:
    fits = True
    try:
        start = clock()
        step(parts)
        seconds.append(clock() - start)
    except torch.OutOfMemoryError:
        fits = False
    if fits:
        continue
    # Here, where the error no longer holds what the step had made.
    seconds = []
    if not recompute:
        recompute = True
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif parts < sequences:
        parts *= 2
    else:
        raise SystemExit("not even one sequence fits into memory")
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
seconds = sorted(seconds[1:])
median = seconds[len(seconds) // 2]
print(
    json.dumps(
        {
            "step_s": median,
            "tok_s": ids.numel() / median,
            "peak_memory_mb": torch.cuda.max_memory_reserved() / 1e6 if cuda else None,
            "parts": parts,
            "activations": "recompute" if recompute else "keep",
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
    )
)
