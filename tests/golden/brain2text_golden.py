"""The network of the public brain-to-text baseline in PyTorch, with what it computes; edit distances by rapidfuzz; and recordings
that are refused.  brain2text_golden.py FOLDER

FOLDER/NAME.safetensors: model.PARAMETER and grad.PARAMETER of the sum of CTC, by DayGru's names; features [B, T, F], lengths [B],
days [B], targets [B, S], target_lengths [B]; log_probabilities [P, B, C], 0 beyond a row's frames; ctc, the sum.
FOLDER/distances.safetensors: pairs of sequences, padded with 0, their lengths, and their edit distances.
FOLDER/recordings/NAME/SESSION/data_SPLIT.hdf5.
"""
import random
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from safetensors.torch import save_file
from torch import nn

OUT = Path(sys.argv[1])
SESSION = "t15.2023.08.11"
FEATURES, CLASSES, DAYS = 5, 7, 3
LENGTHS = [23, 9, 17, 14]
CASES = {"patches": dict(patch=4, stride=3), "smoothed": dict(patch=5, stride=2, std=1.0), "bins": dict(std=2.0),
         "both_ways": dict(patch=4, stride=2, std=1.5, bidirectional=True), "one_layer": dict(patch=3, stride=3, layers=1)}


def gaussian(std, size=100):
    """As scipy's gaussian_filter1d of an impulse, trimmed and scaled as the baseline does it."""
    reach = np.arange(-int(4 * std + 0.5), int(4 * std + 0.5) + 1)
    kernel = np.exp(-0.5 * reach**2 / std**2)
    kernel /= kernel.sum()
    assert len(kernel) < size
    kernel = kernel[kernel > 0.01]
    return torch.tensor(kernel / kernel.sum(), dtype=torch.float32)


class Decoder(nn.Module):
    def __init__(self, patch=0, stride=0, std=None, bidirectional=False, layers=3, units=6):
        super().__init__()
        self.patch, self.stride, self.std, self.layers = patch, stride, std, layers
        self.day_weights = nn.ParameterList([nn.Parameter(torch.eye(FEATURES) + 0.3 * torch.randn(FEATURES, FEATURES)) for _ in range(DAYS)])
        self.day_biases = nn.ParameterList([nn.Parameter(0.3 * torch.randn(1, FEATURES)) for _ in range(DAYS)])
        self.gru = nn.GRU(FEATURES * max(1, patch), units, layers, batch_first=True, bidirectional=bidirectional)
        self.directions = 2 if bidirectional else 1
        self.out = nn.Linear(units * self.directions, CLASSES)
        self.h0 = nn.Parameter(torch.randn(self.directions, units))

    def forward(self, x, day):
        """One recording without padding, [T, F]: the log-probabilities of its frames, [P, C]."""
        if self.std is not None:
            kernel = gaussian(self.std)
            x = nn.functional.conv1d(x.t().unsqueeze(1), kernel.view(1, 1, -1), padding="same").squeeze(1).t()
        x = nn.functional.softsign(x @ self.day_weights[day] + self.day_biases[day])
        if self.patch:
            x = torch.stack([x[i:i + self.patch].reshape(-1) for i in range(0, len(x) - self.patch + 1, self.stride)])
        states = self.h0.repeat(self.layers, 1).unsqueeze(1)  # [layers * directions, 1, H]: the same in each layer
        output, _ = self.gru(x.unsqueeze(0), states)
        return self.out(output[0]).log_softmax(-1)

    def renamed(self):
        """Parameters by DayGru's names."""
        for name, value in self.named_parameters():
            if name.startswith("gru."):
                kind, rest = name[4:].rsplit("_l", 1)
                layer, _, reverse = rest.partition("_")
                name = f"gru.layers.{layer}.{kind}_l0{'_' + reverse if reverse else ''}"
            name = {"h0": "gru.initial_states.0", "out.weight": "gru.classifier.weight", "out.bias": "gru.classifier.bias"}.get(name, name)
            yield name, value


def golden(options):
    model = Decoder(**options)
    rows = [torch.randn(bins, FEATURES) for bins in LENGTHS]
    days = [2, 0, 1, 2]
    targets = [[1, 2, 2], [3], [4, 5], [6]]
    outputs = [model(row, day) for row, day in zip(rows, days)]
    ctc = sum(nn.functional.ctc_loss(output, torch.tensor(target), torch.tensor(len(output)), torch.tensor(len(target)), reduction="sum")
              for output, target in zip(outputs, targets))
    ctc.backward()
    pad = nn.utils.rnn.pad_sequence
    tensors = {"features": pad(rows, batch_first=True), "lengths": torch.tensor(LENGTHS), "days": torch.tensor(days),
               "targets": pad([torch.tensor(target) for target in targets], batch_first=True),
               "target_lengths": torch.tensor([len(target) for target in targets]),
               "log_probabilities": pad(outputs).detach(), "ctc": ctc.detach()}
    for name, value in model.renamed():
        tensors[f"model.{name}"] = value.detach()
        tensors[f"grad.{name}"] = value.grad
    return {name: value.contiguous() for name, value in tensors.items()}


def distances():
    pairs = [([], []), ([], [1, 2]), ([1, 2], []), ([1, 2, 3], [1, 2, 3]), ([1, 1, 2], [1, 2, 2])]
    for _ in range(200):
        pairs.append(tuple([random.randint(1, 5) for _ in range(random.randint(0, 12))] for _ in range(2)))

    def padded(sequences):
        return torch.tensor([list(sequence) + [0] * (12 - len(sequence)) for sequence in sequences])
    a, b = zip(*pairs)
    return {"a": padded(a), "b": padded(b), "a_lengths": torch.tensor([len(x) for x in a]), "b_lengths": torch.tensor([len(x) for x in b]),
            "distances": torch.tensor([Levenshtein.distance(x, y) for x, y in pairs])}


def recordings(name, splits=("train", "val"), features=FEATURES, classes=(1, 2, 2), bins=40, labels=True, attributes=True, steps=None,
               count=None, dtype="i4"):
    """Two trials a split; the second is always a good one."""
    folder = OUT / "recordings" / name / SESSION
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        with h5py.File(folder / f"data_{split}.hdf5", "w") as file:
            for number in range(2):
                group = file.create_group(f"trial_{number:04d}")
                group["input_features"] = np.random.default_rng(number).standard_normal((bins, features)).astype("f4")
                of_trial = list(classes) if number == 0 else [1, 2]
                if labels and split != "test":
                    group["seq_class_ids"] = np.array(of_trial + [0] * (20 - len(of_trial)), dtype)
                if attributes:
                    group.attrs["n_time_steps"] = bins if steps is None else steps
                    if split != "test":
                        group.attrs["seq_len"] = len(of_trial) if count is None else count
                    group.attrs["block_num"] = 1


torch.manual_seed(5)
random.seed(5)
OUT.mkdir(parents=True, exist_ok=True)
for case, how in CASES.items():
    save_file(golden(how), OUT / f"{case}.safetensors")
save_file(distances(), OUT / "distances.safetensors")
recordings("good", splits=("train", "val", "test"))
recordings("without_attributes", attributes=False)
recordings("shorter", steps=30)
recordings("int64", dtype="i8")
recordings("other_features", features=FEATURES + 1)
recordings("class_too_high", classes=(1, CLASSES))
recordings("class_too_low", classes=(1, 0, 2), count=3)
recordings("too_long", classes=(1, 1, 1, 1, 2), bins=14)
recordings("too_short", bins=3, classes=())
recordings("no_labels", labels=False)
recordings("steps_beyond", steps=41)
recordings("count_beyond", count=21)
recordings("no_val", splits=("train",))
(OUT / "recordings" / "no_hdf5" / SESSION).mkdir(parents=True, exist_ok=True)
(OUT / "recordings" / "no_hdf5" / SESSION / "data_train.hdf5").write_bytes(b"no recordings\n")
