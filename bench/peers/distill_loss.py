"""The peer of bench_distill_loss: TRL's chunked divergence, forward and backward, on random hidden states.

  distill_loss.py [--tokens N] [--bf16] [--device cuda]

The same shapes as bench_distill_loss; forward KL alone, at T = 2, without cross-entropy.
"""
import argparse
import statistics
import time

import torch
from trl.trainer.distillation_trainer import _chunked_divergence_loss


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("tokens", 1024), ("vocabulary", 151936), ("student", 256), ("teacher", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    dtype = torch.bfloat16 if options.bf16 else torch.float32
    torch.manual_seed(1)

    def random(rows, columns, scale):
        return (torch.randn(rows, columns) * scale).to(options.device, dtype)

    hidden = random(options.tokens, options.student, 1).unsqueeze(0).requires_grad_()
    weight = random(options.vocabulary, options.student, 0.02).requires_grad_()
    teacher_hidden = random(options.tokens, options.teacher, 1).unsqueeze(0)
    teacher_weight = random(options.vocabulary, options.teacher, 0.02)
    mask = torch.ones(1, options.tokens, device=options.device)
    times = []
    for _ in range(4):
        hidden.grad = weight.grad = None
        start = time.perf_counter()
        loss, _, _ = _chunked_divergence_loss(hidden, teacher_hidden, weight, teacher_weight, mask, 0.0, temperature=2.0)
        loss.backward()
        if options.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(f"trl: {statistics.median(times[1:]) * 1e3:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
