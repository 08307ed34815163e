"""A student that distilbert has trained opens in transformers as DistilBertForMaskedLM, with its tokenizer, and masked words
are about as hard for it there as the program says."""
import os
import re
import sys

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

EXAMPLE = f"{job.SOURCE}/examples/distilbert"
TEXT = "the red fox hunts the mouse in the forest . because it is wild , the fox follows the trail ."


def surprise(model, tokenizer):
    """The perplexity of each of the text's words where it alone is masked."""
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    job.check(tokenizer.unk_token_id not in ids, f"unknown words in {ids}")
    losses = []
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model.eval()(masked).logits[0, place]
        losses.append(torch.nn.functional.cross_entropy(logits, ids[0, place]))
    return torch.stack(losses).mean().exp().item()


def main():
    torch.set_num_threads(1)
    folder = job.workspace()
    common = ["--device", "cpu", "--use_demo_data", "--max_length", "64", "--batch_size", "16", "--global_batch_size", "32",
              "--max_steps", "60", "--learning_rate", "0.003"]
    job.must_run([*common, "--student_checkpoint", f"{EXAMPLE}/teacher", "--alpha", "0", "--gamma", "0", "--output_dir",
                  f"{folder}/teacher"], ranks=2, program="distilbert")
    output = job.must_run([*common, "--teacher_model", f"{folder}/teacher", "--output_dir", f"{folder}/student"], ranks=2,
                          program="distilbert")
    for name, family in ("teacher", "BertForMaskedLM"), ("student", "DistilBertForMaskedLM"):
        model, info = getattr(transformers, family).from_pretrained(f"{folder}/{name}", output_loading_info=True)
        job.check(not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info)
        found = surprise(model, transformers.AutoTokenizer.from_pretrained(f"{folder}/{name}"))
        printed = float(re.search(rf"^{name} .*perplexity +([\d.]+)", output, flags=re.M)[1])
        print(f"{name}: perplexity {found:.1f} of one text, {printed} of the held-out ones")
        job.check(found < 2 * printed + 5, f"{name}: transformers finds {found}, the program {printed}")


main()
