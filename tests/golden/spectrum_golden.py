"""distill_llm --spectrum chooses the layers that Spectrum's rule chooses, computed here by torch on the same weights, and trains them."""
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

KINDS = ("input_layernorm", "lm_head", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "model.embed_tokens", "model.norm",
         "post_attention_layernorm", "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj")


def make_model(folder, layers, is_tied, seed):
    """A Qwen2 model of noise with a few directions of signal, of other strengths in each layer, and odd sizes."""
    torch.manual_seed(seed)
    config = transformers.Qwen2Config(vocab_size=80, hidden_size=48, intermediate_size=88, num_hidden_layers=layers, num_attention_heads=4,
                                      num_key_value_heads=2, tie_word_embeddings=is_tied, max_position_embeddings=64)
    model = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() < 2:
                continue
            for _ in range(int(torch.randint(0, 4, ()))):
                weight += float(torch.rand(())) * torch.outer(torch.randn(weight.shape[0]), torch.randn(weight.shape[1])) * 0.05
    model.save_pretrained(folder)
    return model


def ratio(weight):
    """Signal to noise against the Marchenko-Pastur edge, over the largest singular value."""
    values = torch.linalg.svdvals(weight if weight.dim() > 1 else weight[None])
    sigma = (torch.quantile(values, 0.75) - torch.quantile(values, 0.25)) / 1.349
    short, long = min(weight.shape[0], weight.shape[-1]), max(weight.shape[0], weight.shape[-1])
    if weight.dim() < 2:
        short = 1
    edge = sigma * (1 + (short / long) ** 0.5)
    signal, noise = values[values > edge].sum(), values[values <= edge]
    return float(signal / (noise.sum() if len(noise) else 1) / values[0])


def expected(model, percent):
    lines = ["unfrozen_parameters:", "- ^lm_head.weight$", "- ^model.embed_tokens.weight$"]
    modules = {name: module.weight for name, module in model.named_modules() if hasattr(module, "weight")}
    for kind in KINDS:
        names = [name for name in modules if name.endswith(kind)]
        ratios = {name: ratio(modules[name].detach()) for name in names}
        names.sort(key=lambda name: -ratios[name])
        lines += [f"# {kind} layers", *(f"- {name}" for name in names[:len(names) * percent // 100])]
    return "\n".join(lines) + "\n"


def check_choice(folder):
    for layers, is_tied, percents in ((7, True, (25, 50, 100)), (4, False, (1, 25, 74))):
        path = f"{folder}/some_model_{layers}"
        model = make_model(path, layers, is_tied, seed=layers)
        for percent in percents:
            file = f"{folder}/{layers}-{percent}.yaml"
            output = job.must_run(["--spectrum", str(percent), "--student_model", path, "--spectrum_file", file])
            job.check(f"--layers_to_unfreeze {file}" in output, output)
            with open(file, encoding="utf-8") as written:
                text = written.read()
            job.check(text == expected(model, percent), f"{percent} % of {layers} layers:\n{text}\nexpected:\n{expected(model, percent)}")
    print("ok: the choice is that of the rule")
    return f"{folder}/some_model_7"


def check_name(folder, model):
    """The file's name is that of spectrum.py, in the working folder."""
    os.chdir(folder)
    job.must_run(["--spectrum", "25", "--student_model", "some_model_7"])
    with open("snr_results_some-model-7_unfrozenparameters_25percent.yaml", encoding="utf-8") as named, \
            open("7-25.yaml", encoding="utf-8") as told:
        job.check(named.read() == told.read(), "another choice")
    print("ok: the file's name")


def check_bad_input(folder, model):
    job.make_shape(f"{folder}/shape", hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, vocab=None)
    for arguments, parts in (
            (["--spectrum", "101", "--student_model", model], ["--spectrum", "101"]),
            (["--spectrum", "25"], ["student_model"]),
            (["--spectrum", "25", "--student_model", f"{folder}/none"], ["student_model", "none"]),
            (["--spectrum", "25", "--student_model", f"{folder}/shape"], ["student_model", "no weights"]),
            (["--spectrum", "25", "--student_model", model, "--spectrum_file", f"{folder}/no/such/a.yaml"], ["spectrum_file", "no/such"]),
            (["--spectrum", "25", "--student_model", model, "--plan"], ["--spectrum", "--plan"]),
            (["--spectrum_file", "a.yaml", "--student_model", model], ["spectrum_file", "--spectrum"])):
        code, output = job.run(arguments)
        job.check(code != 0 and output.count("error: ") == 1, f"{arguments}: exit code {code}\n{output}")
        for part in parts:
            job.check(part in output, f"no '{part}' in\n{output}")
    print("ok: bad input")


def main():
    folder = job.workspace()
    model = check_choice(folder)
    check_name(folder, model)
    check_bad_input(folder, model)


main()
