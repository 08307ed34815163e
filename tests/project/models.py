"""docs/models.md: its tables are the families that the code names, the models that golden tests compare with Python's, and
what distill_llm says of others. models.py --write makes them anew."""
import ast
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from made_page import code, table, write_or_check
from refused_folders import refused

OTHER_FAMILIES = ["qwen3", "qwen3_moe", "mistral", "gemma3_text", "phi3", "gpt2", "deepseek_v3", "t5"]
# What is put into a good config.json.
OTHER_FIELDS = [("hidden_act", "gelu"), ("use_sliding_window", True), ("num_experts", 8), ("qk_norm", True),
                ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}), ("partial_rotary_factor", 0.5),
                ("quantization_config", {"quant_method": "bitsandbytes"}), ("quantization_config", {"quant_method": "gptq"}),
                ("quantization_config", {"quant_method": "fp8"})]


def cases_of(name, variable):
    """The keys of a dictionary in tests/golden/NAME.py."""
    with open(f"{job.SOURCE}/tests/golden/{name}.py", encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == variable:
                return [key.value for key in node.value.keys]
    raise KeyError(variable)


def families_of(name):
    """Those that libdistill/nn/NAME.cc reads."""
    with open(f"{job.SOURCE}/libdistill/nn/{name}.cc", encoding="utf-8") as file:
        return re.findall(r'"(\w+)"', re.search(r"ReadModelType\(document, ([^)]*)\)", file.read()).group(1))


def supported():
    rows = []
    for family in families_of("decoder_config"):
        cases = [case for case in cases_of("nn_golden", "CASES") if case.startswith(family)]
        rows.append([f"`{family}`", "decoder: teacher, student", "logits, gradients, packing, greedy answers", code(cases)])
    for family in families_of("encoder_config"):
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


folder = f"{job.workspace()}/model"
write_or_check("models.md", {"supported": supported, "other_models": lambda: other_models(folder)})
