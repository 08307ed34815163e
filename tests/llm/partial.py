"""distill_llm trains a part of the student: layers that a file names, or adapters. What is frozen keeps its bytes."""
import json
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def changed(folder, out):
    before, after = job.read_safetensors(f"{folder}/student/model.safetensors"), job.read_safetensors(f"{folder}/{out}/model.safetensors")
    job.check(before.keys() == after.keys(), f"{sorted(before.keys() ^ after.keys())} is only on one side")
    return {name for name in before if before[name] != after[name]}


def arguments(folder, out, **options):
    return ["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                                        output_dir=f"{folder}/{out}", max_steps=4, per_device_train_batch_size=4, learning_rate=1e-2,
                                        **{"student_model": f"{folder}/student", **options})]


def check_layers(folder):
    with open(f"{folder}/layers.yaml", "w", encoding="utf-8") as file:
        file.write("unfrozen_parameters:\n- model.layers.1.mlp.down_proj\n- model.layers.1.self_attn.[qk]_proj.weight\n")
    expected = {f"model.layers.1.{name}.weight" for name in ("mlp.down_proj", "self_attn.q_proj", "self_attn.k_proj")}
    losses = {}
    for ranks, stage in ((1, 0), (2, 0), (2, 3)):
        out = f"layers_{ranks}_{stage}"
        output = job.must_run(arguments(folder, out, spectrum={"layers_to_unfreeze": f"{folder}/layers.yaml"}, zero_stage=stage,
                                        gradient_accumulation_steps=2 // ranks), ranks=ranks)
        job.check(re.search(r"training 0\.0 of 0\.\d million parameters", output), output)
        job.check(changed(folder, out) == expected, f"{ranks} ranks, stage {stage}: {changed(folder, out)} changed")
        losses[ranks, stage] = [record["loss"] for record in job.metrics(f"{folder}/{out}").values()]
    for other in losses.values():
        job.check(all(abs(a - b) < 1e-4 * a for a, b in zip(losses[1, 0], other)), f"losses {losses}")
    print("ok: layers that a file names, on one rank and on two")


def check_adapters(folder):
    output = job.must_run(arguments(folder, "merged", use_peft=True, lora_r=4, lora_target_modules=["q_proj", "down_proj"], save_steps=2), ranks=2)
    job.check("of 0." in output, output)
    expected = {f"model.layers.{layer}.{name}.weight" for layer in (0, 1) for name in ("mlp.down_proj", "self_attn.q_proj")}
    job.check(changed(folder, "merged") == expected, f"{changed(folder, 'merged')} changed")
    answer = job.must_run(["--generate", f"{folder}/merged", "--prompt", "count the stones", "--max-new-tokens=4"])
    job.check(answer.strip(), "no answer")
    merged = job.read_safetensors(f"{folder}/merged/model.safetensors")
    job.must_run(arguments(folder, "merged", use_peft=True, lora_r=4, lora_target_modules=["q_proj", "down_proj"],
                           resume_from_checkpoint=f"{folder}/merged/checkpoint-2", overwrite_output_dir=True), ranks=2)
    job.check(job.read_safetensors(f"{folder}/merged/model.safetensors") == merged, "a run that is resumed ends elsewhere")
    output = job.must_run(arguments(folder, "adapter", use_peft=True, lora_target_modules="all-linear", lora_save="adapter", zero_stage=3), ranks=2)
    job.check(f"{folder}/adapter, for PEFT" in output, output)
    job.check(len(job.read_safetensors(f"{folder}/adapter/adapter_model.safetensors")) == 2 * 7 * 2, "not all have adapters")
    with open(f"{folder}/adapter/adapter_config.json", encoding="utf-8") as file:
        job.check(json.load(file)["base_model_name_or_path"] == f"{folder}/student", "what the adapters are for")
    job.check(not os.path.exists(f"{folder}/adapter/model.safetensors") and os.path.exists(f"{folder}/adapter/tokenizer.json"),
              f"{os.listdir(f'{folder}/adapter')}")
    job.must_run(arguments(folder, "adapter", overwrite_output_dir=True))
    left = set(os.listdir(f"{folder}/adapter"))
    job.check("model.safetensors" in left and not any("adapter" in name for name in left), f"adapters beside a whole model: {left}")
    job.must_run(arguments(folder, "adapter", use_peft=True, lora_save="adapter", overwrite_output_dir=True))
    left = set(os.listdir(f"{folder}/adapter"))
    job.check("adapter_model.safetensors" in left and not left & {"model.safetensors", "config.json"}, f"a whole model beside adapters: {left}")
    print("ok: adapters, merged and apart, and each in the other's place")


def check_plan(folder):
    """Of a student that is large enough for its moments to be seen in what is printed."""
    job.make_shape(f"{folder}/planned", hidden=512, layers=8, heads=8, kv_heads=2, intermediate=1536, vocab=None)

    def part(kind, *more):
        output = job.must_run([*arguments(folder, "none", student_model=f"{folder}/planned"), "--plan", *more])
        found = re.search(rf"([\d.]+) GiB +{kind}", output)
        flops = re.search(r"the student ([\d.e-]+)", output)
        return float(found[1]) if found else 0.0, float(flops[1])

    for more in (["--layers_to_unfreeze", f"{folder}/layers.yaml"], ["--use_peft", "true"]):
        some, all_of_them = part("optimizer's moments", *more)[0], part("optimizer's moments")[0]
        job.check(0 < some < 0.5 * all_of_them, f"{more}: moments {some} GiB of {all_of_them}")
        job.check(part("activations", *more)[1] < 0.9 * part("activations")[1], f"{more}: {part('a', *more)} {part('a')} operations")
    print("ok: --plan")


def check_memory(folder):
    """With a quarter of the layers memory falls by what --plan says, within 10 %: medians, since the heap's holes differ from run to run."""
    job.make_shape(f"{folder}/deep", hidden=512, layers=8, heads=8, kv_heads=2, intermediate=1536, vocab=None)
    with open(f"{folder}/quarter.yaml", "w", encoding="utf-8") as file:
        file.write("unfrozen_parameters:\n- model.layers.[67].\n")
    planned, measured = {}, {}
    for name, layers in (("all", ""), ("quarter", f"{folder}/quarter.yaml")):
        run = ["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", student_model=f"{folder}/deep", alpha=0, max_steps=2,
                                           per_device_train_batch_size=8, packing=True, max_length=128, print_metrics=True, save_strategy="no",
                                           output_dir=f"{folder}/memory_{name}", layers_to_unfreeze=layers)]
        planned[name] = float(re.search(r"([\d.]+) GiB +a rank", job.must_run([*run, "--plan"]))[1])
        peaks = [float(re.search(r"peak_memory_gib = ([\d.]+)", job.must_run([*run, "--overwrite_output_dir"]))[1]) for _ in range(3)]
        measured[name] = statistics.median(peaks)
    falls = [memory["all"] - memory["quarter"] for memory in (planned, measured)]
    job.check(abs(falls[1] / falls[0] - 1) < 0.1, f"planned {planned}, measured {measured}")
    print(f"ok: memory falls by {falls[1]:.3f} GiB of {measured['all']:.3f}, planned {falls[0]:.3f}")


def check_bad_input(folder):
    job.make_shape(f"{folder}/shape", hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, vocab=None)
    with open(f"{folder}/wrong.yaml", "w", encoding="utf-8") as file:
        file.write("unfrozen_parameters:\n- model.layers.1.mlp\n- model.layers.2.mlp\n")
    for more, parts in ((["--layers_to_unfreeze", f"{folder}/wrong.yaml"], ["layers_to_unfreeze", "wrong.yaml:3", "model.layers.2.mlp"]),
                        (["--layers_to_unfreeze", f"{folder}/none.yaml"], ["layers_to_unfreeze", "none.yaml"]),
                        (["--use_peft", "true", "--layers_to_unfreeze", f"{folder}/layers.yaml"], ["use_peft", "layers_to_unfreeze"]),
                        (["--use_peft", "true", "--lora_target_modules", "w_proj"], ["lora_target_modules", "w_proj", "q_proj"]),
                        (["--use_peft", "true", "--lora_r", "0"], ["lora_r"]),
                        (["--lora_r", "8"], ["lora_r", "use_peft"]),
                        (["--use_peft", "true", "--use_dora", "true"], ["use_dora"]),
                        (["--use_peft", "true", "--student_model", f"{folder}/shape"], ["use_peft", "no weights"])):
        code, output = job.run([*arguments(folder, "none"), *more], ranks=2)
        job.check(code != 0 and output.count("error: ") == 1, f"{more}: exit code {code}\n{output}")
        for text in parts:
            job.check(text in output, f"no '{text}' in\n{output}")
        job.check(not os.path.exists(f"{folder}/none"), "it made the output folder")
    print("ok: bad input")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", 60)
    check_layers(folder)
    check_adapters(folder)
    check_plan(folder)
    check_memory(folder)
    check_bad_input(folder)


main()
