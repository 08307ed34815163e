"""The peer of brain2text: the public baseline's network (a linear layer a day, patches, nn.GRU) with nn.CTCLoss and AdamW, in PyTorch.
torch_gru_ctc.py FOLDER [--make] [--steps N] ...

FOLDER is a job of bench/suite/recipes.py; --make writes its recordings (recordings/SESSION/data_train.hdf5, a trial each). The first
weights are those that brain2text has left in FOLDER/initial.
"""
import math
import os
import time

import h5py
import numpy as np
import torch
from recipe_job import options_of, tell
from safetensors.torch import load_file


def sessions(job):
    return [f"day.{number}" for number in range(job["days"])]


def make(options, job):
    rng = np.random.default_rng(1)
    for session in sessions(job):
        folder = os.path.join(options.job, "recordings", session)
        os.makedirs(folder)
        with h5py.File(os.path.join(folder, "data_train.hdf5"), "w") as file:
            trial = file.create_group("trial_0000")
            trial["input_features"] = rng.standard_normal((job["bins"], job["features"]), dtype=np.float32)
            classes = np.zeros(500, np.int32)
            classes[:job["symbols"]] = rng.integers(1, job["classes"], job["symbols"])
            trial["seq_class_ids"] = classes
            trial.attrs.update(n_time_steps=job["bins"], seq_len=job["symbols"], block_num=0, trial_num=0)


def batch_of(options, job):
    """Each day's trial as often as the batch has room: what brain2text draws of one trial a day."""
    features, classes, days = [], [], []
    for row in range(job["rows"]):
        day = row % job["days"]
        with h5py.File(os.path.join(options.job, "recordings", sessions(job)[day], "data_train.hdf5")) as file:
            features.append(torch.from_numpy(file["trial_0000/input_features"][:]))
            classes.append(torch.from_numpy(file["trial_0000/seq_class_ids"][:job["symbols"]]).long())
        days.append(day)
    return torch.stack(features), torch.stack(classes), days


def smoothing(deviation):
    """scipy's Gaussian of an impulse, of which what is above 0.01 stays."""
    radius = int(4 * deviation + 0.5)
    values = [math.exp(-0.5 * (i / deviation) ** 2) for i in range(-radius, radius + 1)]
    kept = [value for value in values if value / sum(values) > 0.01]
    return torch.tensor([value / sum(kept) for value in kept])


class Network(torch.nn.Module):
    def __init__(self, job, dropout):
        super().__init__()
        self.job, self.kernel = job, smoothing(2.0)
        self.day_weights = torch.nn.ParameterList([torch.eye(job["features"]) for _ in range(job["days"])])
        self.day_biases = torch.nn.ParameterList([torch.zeros(1, job["features"]) for _ in range(job["days"])])
        self.dropout = torch.nn.Dropout(0.2 if dropout else 0.0)
        self.gru = torch.nn.GRU(job["features"] * job["patch"], job["units"], job["layers"], batch_first=True,
                                dropout=0.4 if dropout else 0.0)
        self.out = torch.nn.Linear(job["units"], job["classes"])
        self.h0 = torch.nn.Parameter(torch.zeros(1, 1, job["units"]))

    def take(self, weights):
        for name, value in weights.items():
            where, _, rest = name.partition(".")
            if where in ("day_weights", "day_biases"):
                getattr(self, where)[int(rest)].data.copy_(value)
            elif rest.startswith("layers."):
                _, layer, own = rest.split(".")
                getattr(self.gru, own.replace("_l0", f"_l{layer}")).data.copy_(value)
            elif rest.startswith("initial_states."):
                self.h0.data.copy_(value.view_as(self.h0))
            else:
                getattr(self.out, rest.split(".")[1]).data.copy_(value)

    def forward(self, x, days):
        x = torch.nn.functional.conv1d(x.transpose(1, 2).flatten(0, 1).unsqueeze(1), self.kernel.view(1, 1, -1), padding="same")
        x = x.view(-1, self.job["features"], self.job["bins"]).transpose(1, 2)
        weights = torch.stack([self.day_weights[day] for day in days])
        biases = torch.stack([self.day_biases[day] for day in days])
        x = self.dropout(torch.nn.functional.softsign(torch.einsum("btd,bdk->btk", x, weights) + biases))
        x = x.unsqueeze(1).permute(0, 3, 1, 2).unfold(3, self.job["patch"], self.job["stride"]).squeeze(2).permute(0, 2, 3, 1)
        x = x.reshape(x.size(0), x.size(1), -1)
        states, _ = self.gru(x, self.h0.expand(self.job["layers"], x.size(0), -1).contiguous())
        return self.out(states)


def main():
    options, job = options_of(__doc__)
    if options.make:
        make(options, job)
        return
    model = Network(job, dropout=not options.no_dropout)
    model.take(load_file(os.path.join(options.job, "initial", "model.safetensors")))
    features, classes, days = batch_of(options, job)
    optimizer = torch.optim.AdamW(model.parameters(), job["learning_rate"], eps=job["epsilon"], weight_decay=0.0, fused=True)
    ctc = torch.nn.CTCLoss(blank=0, reduction="none", zero_infinity=False)
    losses, ends = [], []
    model.train()
    for _ in range(options.steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            logits = model(features, days)
        scores = logits.float().log_softmax(2).permute(1, 0, 2)
        lengths = torch.full((job["rows"],), scores.size(0))
        loss = ctc(scores, classes, lengths, torch.full((job["rows"],), job["symbols"])).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        losses.append(loss.item())
        ends.append(time.perf_counter())
    tell(losses, ends)


main()
