"""Opens every folder that the C++ test saved, as a user of transformers would: nn_check_saved.py OUT_FOLDER...

OUT_FOLDER/NAME/saved is a folder by Save of a decoder or an encoder, OUT_FOLDER/NAME/saved_logits.safetensors has
input_ids, where rows are padded their lengths, and the logits that libdistill computes with it, in float32.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file


def check(case):
    saved, dump = case / "saved", load_file(case / "saved_logits.safetensors")
    config = json.loads((saved / "config.json").read_text())
    dtype = config.get("dtype", config.get("torch_dtype"))
    stored = {str(t.dtype).removeprefix("torch.") for t in load_file(saved / "model.safetensors").values()}
    assert stored == {dtype}, f"{saved}: config.json says {dtype}, the file holds {stored}"
    family = getattr(transformers, config["architectures"][0])
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model, info = family.from_pretrained(saved, dtype="auto", output_loading_info=True, **eager)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert str(model.dtype) == f"torch.{dtype}", model.dtype
    # Anew in float32: what a model rounds to its type when it is made (Gemma's scale of embeddings) is not what is saved.
    model = family.from_pretrained(saved, dtype=torch.float32, **eager)
    ids = dump["input_ids"]
    mask = torch.ones_like(ids)
    if "lengths" in dump:
        mask = (torch.arange(ids.shape[1]) < dump["lengths"].unsqueeze(1)).long()
    with torch.no_grad():
        out = model(ids, attention_mask=mask)
    is_span = config["architectures"][0].endswith("QuestionAnswering")
    logits = torch.stack([out.start_logits, out.end_logits], -1) * mask.unsqueeze(-1) if is_span else out.logits
    difference = (logits - dump["logits"]).abs().max() / logits.abs().max()
    assert difference < 1e-4, f"{saved}: logits differ by {difference:.2e}"
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(saved)
    assert tokenizer("w3 w100 w7")["input_ids"] == [3, 100, 7]
    print(f"{case.name}: {dtype}, relative difference {difference:.1e}")


def keeps_generation(case):
    """Whether the model says how it is asked; then the saved one says the same."""
    before, after = (case / name / "generation_config.json" for name in ("model", "saved"))
    if not before.exists():
        return False
    assert after.exists() and after.read_bytes() == before.read_bytes(), f"{after} is not the model's"
    return True


def main():
    torch.set_num_threads(1)
    kept = 0
    for folder in sys.argv[1:]:
        cases = sorted(p.parent for p in pathlib.Path(folder).glob("*/model"))
        assert cases, f"no models in {folder}"
        for case in cases:
            check(case)
            kept += keeps_generation(case)
    assert kept, "no model has a generation_config.json"
    print(f"{kept} models keep their generation_config.json")


if __name__ == "__main__":
    main()
