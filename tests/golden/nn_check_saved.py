"""Opens every folder that the C++ test saved, as a user of transformers would: nn_check_saved.py OUT_FOLDER...

OUT_FOLDER/NAME/saved is a folder by SaveDecoder or Encoder::Save, OUT_FOLDER/NAME/saved_logits.safetensors has input_ids and the logits
that libdistill computes with it, in float32.
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
    is_encoder = config["model_type"] in ("bert", "distilbert")
    family = transformers.AutoModelForMaskedLM if is_encoder else transformers.AutoModelForCausalLM
    model, info = family.from_pretrained(
        saved, dtype="auto", attn_implementation="eager", output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert str(model.dtype) == f"torch.{dtype}", model.dtype
    with torch.no_grad():
        logits = model.float()(dump["input_ids"]).logits
    difference = (logits - dump["logits"]).abs().max() / logits.abs().max()
    assert difference < 1e-4, f"{saved}: logits differ by {difference:.2e}"
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(saved)
    assert tokenizer("w3 w100 w7")["input_ids"] == [3, 100, 7]
    print(f"{case.name}: {dtype}, relative difference {difference:.1e}")


def main():
    torch.set_num_threads(1)
    for folder in sys.argv[1:]:
        cases = sorted(p.parent for p in pathlib.Path(folder).glob("*/model"))
        assert cases, f"no models in {folder}"
        for case in cases:
            check(case)


if __name__ == "__main__":
    main()
