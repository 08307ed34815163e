"""Values of the distillation loss and its gradients, computed by PyTorch in float64: loss_golden.py OUT_FOLDER

The formula is DistillKit's (distil_logits.py): T^2 * kl_div(log_softmax(s / T), softmax(t / T)), with sums in place of
means, and cross-entropy; with beta, TRL's generalised Jensen-Shannon divergence (GKDTrainer), times T^2; the others as
docs/losses.md has them. The C++ tests read OUT_FOLDER/NAME.safetensors.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

# name: tokens, student hidden, teacher hidden, student rows, teacher rows, vocabulary, temperature, alpha, bias, scale,
# and beta where it is not 0, or the name of a divergence with what it takes
CASES = {
    "plain": (37, 16, 24, 101, 101, 101, 2.0, 0.5, False, 1.0),
    "odd_vocabulary": (64, 8, 8, 257, 257, 257, 4.0, 0.9, False, 1.0),
    "padded_student": (21, 16, 16, 160, 151, 151, 2.0, 0.5, True, 1.0),
    "padded_teacher": (21, 16, 16, 151, 160, 149, 1.0, 0.3, True, 1.0),
    "kl_only": (16, 12, 20, 64, 64, 64, 3.0, 1.0, False, 1.0),
    "labels_only": (16, 12, 20, 64, 64, 64, 3.0, 0.0, False, 1.0),
    "one_token": (1, 4, 4, 5, 5, 5, 2.0, 0.5, True, 1.0),
    "peaked": (9, 16, 16, 33, 33, 33, 2.0, 0.5, False, 8.0),
    "reverse": (24, 16, 16, 151, 160, 149, 2.0, 0.5, True, 1.0, 1.0),
    "jensen_shannon": (24, 16, 16, 151, 160, 149, 1.0, 0.7, True, 1.0, 0.5),
    "jensen_shannon_peaked": (9, 16, 16, 33, 33, 33, 2.0, 1.0, False, 8.0, 0.1),
    "skewed": (24, 16, 16, 151, 160, 149, 2.0, 0.5, True, 1.0, "skewed_kl", 0.1),
    "skewed_peaked": (9, 16, 16, 33, 33, 33, 2.0, 1.0, False, 8.0, "skewed_kl", 0.4),
    "skewed_reverse": (24, 16, 16, 151, 160, 149, 1.0, 0.5, True, 1.0, "skewed_reverse_kl", 0.1),
    "skewed_reverse_peaked": (9, 16, 16, 33, 33, 33, 2.0, 1.0, False, 8.0, "skewed_reverse_kl", 0.4),
    "total_variation": (24, 16, 16, 151, 160, 149, 2.0, 0.5, True, 1.0, "total_variation"),
    "mse": (24, 16, 16, 151, 160, 149, 2.0, 0.5, True, 1.0, "mse"),
    "top_1": (24, 16, 16, 151, 160, 149, 1.0, 0.5, True, 1.0, "topk_kl", 1),
    "top_20": (24, 16, 16, 151, 160, 149, 2.0, 0.5, True, 1.0, "topk_kl", 20),
    "top_all": (9, 16, 16, 33, 33, 33, 2.0, 1.0, False, 8.0, "topk_kl", 40),
}
# In the order of the option's choices.
NAMES = ["kl", "reverse_kl", "jensen_shannon", "topk_kl", "skewed_kl", "skewed_reverse_kl", "total_variation", "mse"]


def kl(p, q):
    return F.kl_div(q.log(), p, reduction="sum")


def named(student, teacher, name, argument):
    """Of logits [N, V] over T, summed."""
    if name == "mse":
        return F.mse_loss(student, teacher, reduction="none").mean(-1).sum()
    q, p = student.softmax(-1), teacher.softmax(-1)
    if name == "total_variation":
        return 0.5 * F.l1_loss(q, p, reduction="sum")
    if name == "skewed_kl":
        return kl(p, argument * p + (1 - argument) * q)
    if name == "skewed_reverse_kl":
        return kl(q, argument * q + (1 - argument) * p)
    assert name == "topk_kl"
    if argument >= p.shape[-1]:
        return kl(p, q)
    top, ids = p.topk(argument, -1)
    events = [torch.cat([x, 1 - x.sum(-1, keepdim=True)], -1) for x in (top, q.gather(-1, ids))]
    return kl(*events)


def divergence(student, teacher, beta):
    """Of log-probabilities [N, V], summed."""
    if beta == 0:
        return F.kl_div(student, teacher, reduction="sum", log_target=True)
    if beta == 1:
        return F.kl_div(teacher, student, reduction="sum", log_target=True)
    weight = torch.tensor(beta, dtype=student.dtype)
    mixture = torch.logsumexp(torch.stack([student + torch.log1p(-weight), teacher + torch.log(weight)]), dim=0)
    return beta * F.kl_div(mixture, teacher, reduction="sum", log_target=True) + (1 - beta) * F.kl_div(
        mixture, student, reduction="sum", log_target=True)


def make(seed, tokens, hs, ht, vs, vt, vocabulary, t, alpha, has_bias, scale, beta=0.0, argument=0.0):
    torch.manual_seed(seed)
    out = {
        "student_hidden": torch.randn(tokens, hs) * scale,
        "student_weight": torch.randn(vs, hs),
        "teacher_hidden": torch.randn(tokens, ht) * scale,
        "teacher_weight": torch.randn(vt, ht),
        "labels": torch.randint(0, vocabulary, (tokens,)),
    }
    if has_bias:
        out["student_bias"] = torch.randn(vs)
        out["teacher_bias"] = torch.randn(vt)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in out.items()}
    leaves = [k for k in wide if k.startswith("student")]
    for k in leaves:
        wide[k].requires_grad_()

    def logits(side):
        x = wide[f"{side}_hidden"] @ wide[f"{side}_weight"].T
        if has_bias:
            x = x + wide[f"{side}_bias"]
        return x[:, :vocabulary]

    student, teacher = logits("student"), logits("teacher")
    if isinstance(beta, str):
        of_teacher = named(student / t, teacher / t, beta, argument) * t**2
    else:
        of_teacher = divergence(F.log_softmax(student / t, -1), F.log_softmax(teacher / t, -1), beta) * t**2
    ce = F.cross_entropy(student, wide["labels"], reduction="sum")
    loss = alpha * of_teacher + (1 - alpha) * ce
    loss.backward()
    out |= {"loss": loss.detach(), "divergence": of_teacher.detach(), "ce": ce.detach()}
    out |= {f"grad.{k}": wide[k].grad for k in leaves}
    number = 1 + NAMES.index(beta) if isinstance(beta, str) else 0
    skew, top_k = (argument, 0) if isinstance(argument, float) else (0, argument)
    options = [t, alpha, vocabulary, 0 if number else beta, number, skew, top_k]
    out["options"] = torch.tensor(options, dtype=torch.float64)
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        save_file({k: v.contiguous() for k, v in make(seed, *case).items()}, folder / f"{name}.safetensors")
    print(f"{len(CASES)} cases in {folder}")


if __name__ == "__main__":
    main()
