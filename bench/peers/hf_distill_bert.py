"""The peer of bench_train_step distilbert: the DistilBERT recipe with transformers modules, DDP and Gloo.

  torchrun --nproc-per-node N hf_distill_bert.py [--bf16] [--no-dropout] [--steps N] [--save FOLDER]

BERT-base to a student of six layers, 8 x 128 tokens a rank: 0.5 * T^2 * KL at T = 3, 2 * MLM, and the cosine of the last
hidden states. --save, which implies --no-dropout, writes what another program needs to repeat the run: the first weights
(teacher/, student/), each rank's inputs (inputs-RANK.safetensors, int64 [steps, B, L] input_ids and labels) and its loss of
each step (losses-RANK.json).
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

BATCH, LENGTH, TEMPERATURE, MASK = 8, 128, 3.0, 103


def loss_of(teacher, student, tokens, labels):
    with torch.no_grad():
        of_teacher = teacher(tokens)
    out = student(tokens)
    kl = F.kl_div(F.log_softmax(out.logits.float() / TEMPERATURE, -1),
                  F.softmax(of_teacher.logits.float() / TEMPERATURE, -1),
                  reduction="batchmean") * TEMPERATURE * TEMPERATURE / LENGTH
    mlm = F.cross_entropy(out.logits.float().view(-1, out.logits.shape[-1]), labels.view(-1))
    states, of_teacher_states = out.hidden_states[-1].float(), of_teacher.hidden_states[-1].float()
    cosine = F.cosine_embedding_loss(states.view(-1, states.shape[-1]),
                                     of_teacher_states.view(-1, states.shape[-1]), torch.ones(BATCH * LENGTH))
    return .5 * kl + 2 * mlm + cosine


def masked(generator):
    """Random words, and which of them a mask hides: 15 %."""
    words = torch.randint(1000, 30000, (BATCH, LENGTH), generator=generator)
    hidden = torch.rand(BATCH, LENGTH, generator=generator) < 0.15
    return words.masked_fill(hidden, MASK), words.masked_fill(~hidden, -100)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--no-dropout", action="store_true")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--save", metavar="FOLDER")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    no_dropout = {"dropout": 0.0, "attention_dropout": 0.0} if options.no_dropout or options.save else {}
    dtype = torch.bfloat16 if options.bf16 else torch.float32
    teacher = BertForMaskedLM(BertConfig(output_hidden_states=True)).eval().to(dtype)
    student = DistilBertForMaskedLM(DistilBertConfig(output_hidden_states=True, **no_dropout))
    if options.save and rank == 0:
        teacher.save_pretrained(f"{options.save}/teacher")
        student.save_pretrained(f"{options.save}/student")
    model = torch.nn.parallel.DistributedDataParallel(student, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4, fused=True)
    generator = torch.Generator().manual_seed(rank)

    inputs, labels, losses, seconds = [], [], [], []
    for _ in range(options.steps):
        tokens, hidden = masked(generator)
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = loss_of(teacher, model, tokens, hidden)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        inputs.append(tokens)
        labels.append(hidden)
        losses.append(loss.item())
    if options.save:
        save_file({"input_ids": torch.stack(inputs), "labels": torch.stack(labels)},
                  f"{options.save}/inputs-{rank}.safetensors")
        with open(f"{options.save}/losses-{rank}.json", "w", encoding="utf-8") as file:
            json.dump(losses, file)
    median = statistics.median_high(seconds[1:])
    if rank == 0:
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"transformers+DDP {'bf16' if options.bf16 else 'fp32'} ranks {world_size}: {median * 1e3:.0f} ms/step "
              f"{world_size * BATCH * LENGTH / median:.1f} tokens/s, peak RSS {gib:.2f} GiB/rank loss {losses[-1]:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
