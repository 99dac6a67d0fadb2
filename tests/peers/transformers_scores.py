"""The side of transformers in `cargo lab vectors export`: python -c SOURCE DIRECTORY...

Reads {"text", "sequences"} from the standard input. Prints, by directory: the tokens of the text, and the log-prob of every token of the
sequences that follows another.
"""

import json
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

transformers.utils.logging.disable_progress_bar()
question = json.load(sys.stdin)
torch.set_grad_enabled(False)


def look(directory):
    model, loading = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    wrong = {key: sorted(loading[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if loading[key]}
    if wrong:
        raise SystemExit(f"{directory}: {wrong}")
    model = model.float().eval()
    logp = []
    for ids in question["sequences"]:
        ids = torch.tensor([ids])
        every = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1)
        logp.append(every.gather(1, ids[0, 1:, None]).squeeze(1).tolist())
    # The class that tokenizer_config.json names. AutoTokenizer takes a class of the family's own for Qwen2, which splits text into words
    # before it looks at the file; these models have characters for tokens.
    tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    text = tokenizer(question["text"], add_special_tokens=False).input_ids
    return {"text": text, "logp": logp}


models = [look(directory) for directory in sys.argv[1:]]
versions = {"torch": torch.__version__, "transformers": transformers.__version__}
print(json.dumps({"versions": versions, "models": models}))
