"""Files as torch.save writes them, each beside a safetensors file of the same tensors: torch_files_golden.py STORE_FOLDER MODELS_FOLDER

STORE_FOLDER/NAME.bin and NAME.safetensors: state_dicts of every type, in views, shared and not contiguous, in the format of
today and in that before torch 1.6, by several protocols of pickle. STORE_FOLDER/evil/*.bin would make STORE_FOLDER/ran.
MODELS_FOLDER/NAME/{safetensors,new,legacy,sharded}: a model's folder, which differ in how the weights are stored alone.
"""
import collections
import json
import os
import pathlib
import pickle
import shutil
import sys
import zipfile

import torch
import transformers
from safetensors.torch import load_file, save_file

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# The types that are read as wider ones.
WIDER = {torch.int8: torch.int32, torch.int16: torch.int32, torch.bool: torch.uint8}
SIZES = dict(vocab_size=101, max_position_embeddings=40)
DECODER = dict(SIZES, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)


def state_dicts():
    """{name: a state_dict}"""
    rows = torch.randn(5, 7)
    views = {"rows": rows, "again": rows, "turned": rows.t(), "part": rows[1:4, ::2], "column": rows[:, 3], "last": rows[4, 6],
             "repeated": torch.randn(3, 1).expand(3, 6), "permuted": torch.randn(2, 3, 4).permute(2, 0, 1), "empty": torch.empty(0, 4),
             "no_rows": rows[:0], "number": torch.tensor(2.5), "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    types = {str(dtype): torch.randn(3, 4).to(dtype) for dtype in FLOATS}
    types |= {str(dtype): torch.randint(-100, 100, (4, 3)).to(dtype).t()
              for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)}
    types["bool"] = torch.tensor([[True, False, True], [False, False, True]])
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    parameters = collections.OrderedDict((name, value) for name, value in module.named_parameters())
    return {"views": views, "types": types, "module": module.state_dict(), "parameters": parameters, "none": {},
            "large": {f"layer.{i}.weight": torch.randn(17, 3) for i in range(3000)}}


def as_read(tensor):
    return tensor.detach().to(WIDER.get(tensor.dtype, tensor.dtype)).contiguous().clone()


class Evil:
    def __init__(self, flag):
        self.flag = flag

    def __reduce__(self):
        return os.system, (f"touch {self.flag}",)


def write_evil(folder, flag):
    """Each of them runs a command when Python loads it as it is."""
    folder.mkdir()
    torch.save({"a": torch.ones(2), "b": Evil(flag)}, folder / "new.bin")
    torch.save({"a": torch.ones(2), "b": Evil(flag)}, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    (folder / "plain.bin").write_bytes(pickle.dumps(Evil(flag), protocol=2))
    (folder / "framed.bin").write_bytes(pickle.dumps({"a": Evil(flag)}, protocol=4))
    pickle.loads((folder / "plain.bin").read_bytes())
    assert flag.exists(), "the evil pickles do no evil"
    flag.unlink()


def write_store(root):
    for name, tensors in state_dicts().items():
        torch.save(tensors, root / f"{name}_new.bin")
        torch.save(tensors, root / f"{name}_protocol_4.bin", pickle_protocol=4)
        torch.save(tensors, root / f"{name}_legacy.bin", _use_new_zipfile_serialization=False)
        # As another program packs it: another root, and no alignment.
        with zipfile.ZipFile(root / f"{name}_new.bin") as of_torch, zipfile.ZipFile(root / f"{name}_packed.bin", "w") as packed:
            for entry in of_torch.infolist():
                packed.writestr("another root/" + entry.filename.split("/", 1)[1], of_torch.read(entry))
        for kind in ("new", "protocol_4", "legacy", "packed"):
            loaded = torch.load(root / f"{name}_{kind}.bin", weights_only=False)
            save_file({key: as_read(value) for key, value in loaded.items()}, root / f"{name}_{kind}.safetensors")
    write_evil(root / "evil", root / "ran")


def models():
    encoder = dict(SIZES, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    yield "bert", transformers.BertForMaskedLM(transformers.BertConfig(**encoder)), torch.float32
    yield "distilbert", transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(
        **SIZES, dim=32, hidden_dim=48, n_layers=2, n_heads=4)), torch.float16
    yield "qwen2", transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER, tie_word_embeddings=True)), torch.bfloat16
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER)), torch.float32


def older_names(state):
    """BERT's first folders, with what transformers ignores in them."""
    named = {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
             for key, value in state.items()}
    return named | {"bert.embeddings.position_ids": torch.arange(40).expand((1, -1)), "cls.seq_relationship.bias": torch.randn(2),
                    "bert.pooler.dense.bias": torch.randn(32)}


def write_folder(folder, like):
    folder.mkdir()
    for file in like.glob("*config.json"):
        shutil.copy(file, folder)
    return folder


def write_model(root, model):
    model.save_pretrained(root / "safetensors")
    state = model.state_dict()  # tied weights share their storage
    torch.save(state, write_folder(root / "new", root / "safetensors") / "pytorch_model.bin")
    older = older_names(state) if model.config.model_type == "bert" else state
    torch.save(older, write_folder(root / "legacy", root / "safetensors") / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    folder = write_folder(root / "sharded", root / "safetensors")
    names, weight_map = list(state), {}
    for part in range(3):
        file_name = f"pytorch_model-{part + 1:05}-of-00003.bin"
        torch.save({name: state[name] for name in names[part::3]}, folder / file_name)
        weight_map |= {name: file_name for name in names[part::3]}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    again = type(model).from_pretrained(root / "new", dtype="auto").state_dict()
    assert all(torch.equal(again[name], value) for name, value in load_file(root / "safetensors/model.safetensors").items())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    store, of_models = map(pathlib.Path, sys.argv[1:])
    for root in (store, of_models):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
    write_store(store)
    for name, model, dtype in models():
        write_model(of_models / name, model.to(dtype))
    print(f"{len(list(store.glob('*.bin')))} files in {store}, models in {of_models}")


if __name__ == "__main__":
    main()
