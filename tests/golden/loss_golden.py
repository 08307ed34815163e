"""Values of the distillation loss and its gradients, computed by PyTorch in float64: loss_golden.py OUT_FOLDER

The formula is DistillKit's (distil_logits.py): T^2 * kl_div(log_softmax(s / T), softmax(t / T)), with sums in place of
means, and cross-entropy. The C++ tests read OUT_FOLDER/NAME.safetensors.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

# name: tokens, student hidden, teacher hidden, student rows, teacher rows, vocabulary, temperature, alpha, bias, scale
CASES = {
    "plain": (37, 16, 24, 101, 101, 101, 2.0, 0.5, False, 1.0),
    "odd_vocabulary": (64, 8, 8, 257, 257, 257, 4.0, 0.9, False, 1.0),
    "padded_student": (21, 16, 16, 160, 151, 151, 2.0, 0.5, True, 1.0),
    "padded_teacher": (21, 16, 16, 151, 160, 149, 1.0, 0.3, True, 1.0),
    "kl_only": (16, 12, 20, 64, 64, 64, 3.0, 1.0, False, 1.0),
    "labels_only": (16, 12, 20, 64, 64, 64, 3.0, 0.0, False, 1.0),
    "one_token": (1, 4, 4, 5, 5, 5, 2.0, 0.5, True, 1.0),
    "peaked": (9, 16, 16, 33, 33, 33, 2.0, 0.5, False, 8.0),
}


def make(seed, tokens, hs, ht, vs, vt, vocabulary, t, alpha, has_bias, scale):
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
    kl = F.kl_div(F.log_softmax(student / t, -1), F.softmax(teacher / t, -1), reduction="sum") * t**2
    ce = F.cross_entropy(student, wide["labels"], reduction="sum")
    loss = alpha * kl + (1 - alpha) * ce
    loss.backward()
    out |= {"loss": loss.detach(), "kl": kl.detach(), "ce": ce.detach()}
    out |= {f"grad.{k}": wide[k].grad for k in leaves}
    out["options"] = torch.tensor([t, alpha, vocabulary], dtype=torch.float64)
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        save_file({k: v.contiguous() for k, v in make(seed, *case).items()}, folder / f"{name}.safetensors")
    print(f"{len(CASES)} cases in {folder}")


if __name__ == "__main__":
    main()
