"""docs/models.md: its tables are the families that the code names, the models that golden tests compare with Python's, and
what distill_llm says of others. models.py --write makes them anew. tests/llm/families.py makes the table of what works."""
import ast
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from made_page import code, table, write_or_check
from refused_folders import refused

OTHER_FAMILIES = ["gpt2", "gemma3", "qwen3_next", "mixtral", "llama4_text", "deepseek_v3", "t5"]
# What is put into a good config.json.
OTHER_FIELDS = [("hidden_act", "gelu"), ("layer_types", ["full_attention", "sliding_attention", "full_attention"]),
                ("num_experts", 8), ("qk_norm", True), ("rope_scaling", {"rope_type": "xpos", "factor": 4.0}),
                ("partial_rotary_factor", 0.5), ("final_logit_softcapping", 30.0),
                ("quantization_config", {"quant_method": "bitsandbytes"}), ("quantization_config", {"quant_method": "gptq"}),
                ("quantization_config", {"quant_method": "fp8"})]


def cases_of(name, variable):
    """The keys of a dictionary in tests/golden/NAME.py."""
    with open(f"{job.SOURCE}/tests/golden/{name}.py", encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == variable:
                return [key.value for key in node.value.keys]
    raise KeyError(variable)


def kinds_of(name, variable):
    """The same, with the first element of each one's value."""
    with open(f"{job.SOURCE}/tests/golden/{name}.py", encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == variable:
                return {key.value: value.elts[0].value for key, value in zip(node.value.keys, node.value.values)}
    raise KeyError(variable)


def text_of(pattern):
    """Of the sources in libdistill/nn/ that match."""
    texts = []
    for path in sorted(glob.glob(f"{job.SOURCE}/libdistill/nn/{pattern}")):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "".join(texts)


def decoders():
    """{model_type: its golden cases}."""
    families = re.findall(r'\.model_type = "(\w+)"', text_of("families/*.cc"))
    cases = {family: [] for family in families}
    for case in cases_of("nn_golden", "CASES"):
        cases[max((family for family in families if case.startswith(family)), key=len)].append(case)
    return cases


def supported():
    rows = []
    for family, cases in decoders().items():
        uses = "decoder: teacher" if "moe" in family or family == "gpt_oss" else "decoder: teacher, student"
        gradients = "gradients but those of sinks" if family == "gpt_oss" else "gradients"
        rows.append([f"`{family}`", uses, f"logits, {gradients}, packing, greedy answers", code(cases)])
    for family in re.findall(r'"(\w+)"', re.search(r"ReadModelType\(document, ([^)]*)\)", text_of("encoder_config.cc")).group(1)):
        cases = [case for name in ("encoder_golden", "heads_golden") for case in cases_of(name, "CASES")
                 if case.removeprefix("new_").startswith(family)]
        rows.append([f"`{family}`", "encoder: masked words, classes, spans", "logits, gradients, packing", code(cases)])
    for row in rows:
        job.check(row[3], f"no golden test has a model of {row[0]}")
    return table(["`model_type`", "what it is", "compared with transformers", "the test's models"], rows)


def other_models(folder):
    families = list(refused(folder, "config.json", [(name, ["model_type"], name) for name in OTHER_FAMILIES]))
    messages = {message.replace(f'"{name}" is not', '"..." is not') for name, message in families}
    job.check(len(messages) == 1, f"families are refused in more than one way: {messages}")
    fields = refused(folder, "config.json", [(f"`{name}`", [name], value) for name, value in OTHER_FIELDS])
    return table(["config.json has", "message"], [[f"`model_type`: {code(OTHER_FAMILIES)}", *messages], *fields])


GGUF_MODELS = {"llama": "Llama 2 to 3, SmolLM and SmolLM2, Mistral; Llama 3.1 to 3.3 with their `config.json`", "qwen2": "Qwen2, Qwen2.5", "qwen3": "Qwen3",
               "gemma2": "Gemma 2", "gemma3": "the text models of Gemma 3", "phi3": "Phi-3, Phi-3.5, Phi-4, Phi-4-mini"}


def gguf():
    """The architectures that the code names, and the golden test's models whose model_type becomes each."""
    with open(f"{job.SOURCE}/libdistill/store/gguf_names.cc", encoding="utf-8") as file:
        names = re.findall(r'"(\w+)"', re.search(r"kArchitectures\[\] = {([^}]*)}", file.read()).group(1))
    cases = {name: [] for name in names}
    for case, model_type in kinds_of("quantised_golden", "GGUF").items():
        cases[{"mistral": "llama", "gemma3_text": "gemma3"}.get(model_type, model_type)].append(case)
    rows = [[f"`{name}`", GGUF_MODELS[name], "weights, logits, saving", code(cases[name])] for name in names]
    for row in rows:
        job.check(row[3], f"no golden test has a GGUF file of {row[0]}")
    return table(["`general.architecture`", "models", "compared with transformers", "the test's models"], rows)


folder = f"{job.workspace()}/model"
write_or_check("models.md", {"supported": supported, "gguf": gguf, "other_models": lambda: other_models(folder)}, elsewhere=["works"])
