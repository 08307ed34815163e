"""What transformers' logits processors leave of drawn logits: sampling_golden.py FILE

FILE, of safetensors, holds for each case N: logits.N [V], ids.N (of prompt and answer), options.N (temperature, top_k,
top_p, min_p, repetition_penalty) and probabilities.N [V], in the order in which GenerationMixin applies the processors.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

CASES = [dict(temperature=t, top_k=k, top_p=p, min_p=m, repetition_penalty=r)
         for t, k, p, m, r in [(1.0, 0, 1.0, 0.0, 1.0), (0.7, 0, 1.0, 0.0, 1.0), (2.0, 5, 1.0, 0.0, 1.0), (1.0, 0, 0.9, 0.0, 1.0),
                               (1.0, 0, 0.3, 0.0, 1.0), (0.7, 20, 0.8, 0.0, 1.05), (1.3, 50, 0.95, 0.05, 1.2), (1.0, 0, 1.0, 0.1, 1.0),
                               (1.0, 1, 1.0, 0.0, 1.0), (1.0, 0, 1e-6, 0.0, 1.0), (1.0, 0, 1.0, 1.0, 0.8), (0.1, 400, 0.99, 0.0, 2.0),
                               (5.0, 0, 0.999, 0.001, 1.1)]]
SIZES = (7, 300, 5000)


def processed(model, logits, ids, options):
    config = GenerationConfig(do_sample=True, num_beams=1, min_p=options["min_p"] or None,
                              **{name: value for name, value in options.items() if name != "min_p"})
    processors = model._get_logits_processor(config, input_ids_seq_length=len(ids))
    return processors(ids.unsqueeze(0), logits.clone().unsqueeze(0)).softmax(-1)[0]


def main():
    torch.manual_seed(5)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=10, n_embd=4, n_layer=1, n_head=1, n_positions=8))
    tensors = {}
    for vocabulary in SIZES:
        for options in CASES:
            number = len(tensors) // 4
            logits = 3 * torch.randn(vocabulary)
            if number % 3 == 0:
                logits = logits.bfloat16().float()  # has equal ones, as models in bfloat16 give
            ids = torch.randint(vocabulary, (9,))
            tensors |= {f"logits.{number}": logits, f"ids.{number}": ids.to(torch.int32),
                        f"options.{number}": torch.tensor(list(options.values()), dtype=torch.float64),
                        f"probabilities.{number}": processed(model, logits, ids, options)}
    pathlib.Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, sys.argv[1])


main()
