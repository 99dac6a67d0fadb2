"""PyTorch's side of `cargo lab bench rollout` and of the GPU kit: python -c SOURCE bf16|f32 cpu|cuda TASK... Prints one JSON object for each task.

The prompt is computed once, and its cache is repeated for the samples; then `generate` draws at temperature 1, as a user would have it do. Tasks
differ in their samples alone: model and prompt are those of the first, and so are the rates of the prompt and of one sample.
"""

import copy
import json
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache

WARM_UP = 8

weights, device, *paths = sys.argv[1:]
tasks = []
for path in paths:
    with open(path) as file:
        tasks.append(json.load(file))
task = tasks[0]
dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[weights]
torch.set_num_threads(task["threads"])
torch.manual_seed(0)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
model = AutoModelForCausalLM.from_pretrained(task["model"], dtype=dtype).eval().to(device)
prompt = torch.tensor([task["prompt"]], device=device)
new = len(task["given"])


def clock():
    """The time, once the device has done what it was asked."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def decode(prompt, cache, count, new):
    """Tokens a second of `count` samples behind the prompt, whose cache lacks the last token."""
    if count > 1:
        cache.batch_repeat_interleave(count)
    ids = prompt.repeat(count, 1)
    start = clock()
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        past_key_values=cache,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=new,
        eos_token_id=None,
        pad_token_id=0,
    )
    seconds = clock() - start
    if out.shape != (count, prompt.shape[1] + new):
        raise SystemExit(f"generate gave {tuple(out.shape)}")
    return count * new / seconds


def about():
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "device_mb": torch.cuda.max_memory_reserved() / 1e6 if device == "cuda" else None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "weights": weights,
        "cache": weights,
        "attention": model.config._attn_implementation,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "config": " ".join(torch.__config__.show().split()),
        "threads": torch.get_num_threads(),
        "drawn": "by generate, at temperature 1",
    }


with torch.inference_mode():
    decode(prompt[:, :WARM_UP], DynamicCache(config=model.config), 1, 2)
    # On a device the first products of a shape load and choose their kernels, and one pass is too short to be timed alone.
    seconds = []
    for _ in range(6 if device == "cuda" else 1):
        start = clock()
        out = model(prompt, use_cache=True, logits_to_keep=1)
        seconds.append(clock() - start)
    prefill = prompt.shape[1] / sorted(seconds)[len(seconds) // 2]
    logprob = torch.log_softmax(out.logits[0, -1].double(), dim=-1)[task["given"][0][0]].item()
    cache = out.past_key_values
    cache.crop(-1)

    def warmed(count):
        if device == "cuda":
            decode(prompt, copy.deepcopy(cache), count, WARM_UP)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        return decode(prompt, copy.deepcopy(cache), count, new)

    single = warmed(1)
    for task in tasks:
        group = warmed(len(task["given"][0]))
        rates = {"prefill_tok_s": prefill, "single_tok_s": single, "group_tok_s": group, "logprob": logprob}
        print(json.dumps({**rates, "about": about()}))
