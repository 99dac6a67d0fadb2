"""PyTorch's side of `cargo lab bench train`: python -c SOURCE STEPS. Prints one JSON object."""

import json
import os
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM


def resident(field):
    """VmRSS or VmHWM of this process in MB."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"/proc/self/status has no {field}")


torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=8192,
    hidden_size=384,
    intermediate_size=1152,
    num_hidden_layers=8,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=64,
    tie_word_embeddings=True,
)
model = Qwen3ForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(0, config.vocab_size, (8, 256))
before = resident("VmRSS")
seconds = []
for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    logits = model(ids).logits[:, :-1]
    logp = torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None]).squeeze(2)
    ratio = torch.exp(logp - logp.detach())
    loss = -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seconds.append(time.perf_counter() - start)
seconds.sort()
parameters = sum(parameter.numel() for parameter in model.parameters())
tok_s = ids.numel() / seconds[len(seconds) // 2]
print(json.dumps({"tok_s": tok_s, "memory_mb": resident("VmHWM") - before, "parameters": parameters}))
