"""The peers of bench_distill_loss, forward and backward, on random hidden states of its shapes.

  distill_loss.py whole-logits|trl|liger [--tokens N] [--bf16] [--device cuda] [--repetitions N]

whole-logits: plain PyTorch with F.kl_div and F.cross_entropy, half of each. trl and liger: their chunked divergences alone, forward KL,
without cross-entropy, Liger's compiled by torch.compile as it comes. All at T = 2.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

TEMPERATURE = 2.0


def whole_logits(states, labels):
    hidden, weight, teacher_hidden, teacher_weight = states
    with torch.no_grad():
        teacher = F.softmax((teacher_hidden @ teacher_weight.t()).float() / TEMPERATURE, -1)
    logits = (hidden @ weight.t()).float()
    kl = F.kl_div(F.log_softmax(logits / TEMPERATURE, -1), teacher, reduction="batchmean") * TEMPERATURE**2
    return .5 * kl + .5 * F.cross_entropy(logits, labels)


def trl(states, labels):
    from trl.trainer.distillation_trainer import _chunked_divergence_loss
    hidden, weight, teacher_hidden, teacher_weight = states
    mask = torch.ones(1, len(labels), device=labels.device)
    return _chunked_divergence_loss(hidden.unsqueeze(0), teacher_hidden.unsqueeze(0), weight, teacher_weight, mask, 0.0,
                                    temperature=TEMPERATURE)[0]


def liger(states, labels):
    from liger_kernel.chunked_loss import LigerFusedLinearJSDLoss
    hidden, weight, teacher_hidden, teacher_weight = states
    divergence = LigerFusedLinearJSDLoss(weight_hard_loss=0.0, weight_soft_loss=1.0, beta=0.0, temperature=TEMPERATURE)
    return divergence(hidden, weight, teacher_hidden, teacher_weight, labels)


def main():
    parser = argparse.ArgumentParser()
    losses = {"whole-logits": whole_logits, "trl": trl, "liger": liger}
    parser.add_argument("loss", choices=losses)
    for name, default in (("tokens", 1024), ("vocabulary", 151936), ("student", 256), ("teacher", 512), ("repetitions", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    dtype = torch.bfloat16 if options.bf16 else torch.float32
    torch.manual_seed(1)

    def random(rows, columns, scale):
        return (torch.randn(rows, columns, device=options.device) * scale).to(dtype)

    hidden = random(options.tokens, options.student, 1).requires_grad_()
    weight = random(options.vocabulary, options.student, 0.02).requires_grad_()
    states = hidden, weight, random(options.tokens, options.teacher, 1), random(options.vocabulary, options.teacher, 0.02)
    labels = torch.randint(options.vocabulary, (options.tokens,)).to(options.device)
    times = []
    for _ in range(options.repetitions + 1):
        hidden.grad = weight.grad = None
        start = time.perf_counter()
        losses[options.loss](states, labels).backward()
        if options.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(f"{options.loss}: {statistics.median(times[1:]) * 1e3:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
