"""What would train something else than was meant, without failing, is refused or said before the first step's record."""
import math
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


SHARDED = {"ranks": 2, "zero_stage": 3, "shard_teacher": True}


def start(folder, out, ranks=1, **options):
    values = {"dataset_name": f"{folder}/chat.jsonl", "teacher_model": f"{folder}/teacher",
              "student_model": f"{folder}/student", "output_dir": f"{folder}/{out}", "max_steps": 2, **options}
    return job.run(["--config_file", job.config(folder, **values)], ranks=ranks)


def check_teachers(folder):
    """A teacher of zeros gives each word the same probability, one of noise as good as that."""
    shutil.copytree(f"{folder}/teacher", f"{folder}/zeros")
    with open(f"{folder}/zeros/model.safetensors", "r+b") as file:
        end = 8 + int.from_bytes(file.read(8), "little")
        size = file.seek(0, os.SEEK_END)
        file.seek(end)
        file.write(bytes(size - end))
    for name in ("zeros", "teacher"):
        for out, how in ((f"of-{name}", {}), (f"of-sharded-{name}", SHARDED)):
            code, output = start(folder, out, teacher_model=f"{folder}/{name}", **how)
            job.check(code == 0 and "the teacher knows no more of this data than chance" in output, f"{out}: {code}\n{output}")
            job.check(name != "zeros" or "all of its matrices are zero" in output, f"{out}: {output}")
        print(f"ok: a teacher of {'noise' if name == 'teacher' else name} is said, sharded too")


def check_students(folder):
    """A student that comes with weights of noise is said; one whose weights are to be random is not."""
    message = "the student knows no more of this data than chance, although it comes with weights"
    for out, how in (("noise", {}), ("sharded-noise", SHARDED)):
        code, output = start(folder, out, alpha=0, teacher_model="none", **how)
        job.check(code == 0 and message in output, f"{out}: {code}\n{output}")
    job.make_shape(f"{folder}/shape", hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, vocab=None)
    code, output = start(folder, "shape", alpha=0, teacher_model="none", student_model=f"{folder}/shape")
    job.check(code == 0 and message not in output, f"random by intent: {code}\n{output}")
    print("ok: a student of noise is said")


def check_not_finite(folder):
    """A weight that is no number ends the run before its first step, and is named."""
    for which in "teacher", "student":
        broken = shutil.copytree(f"{folder}/{which}", f"{folder}/broken-{which}")
        with open(f"{broken}/model.safetensors", "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", math.nan))
        code, output = start(folder, "broken", **{f"{which}_model": broken})
        job.check(code == 2 and f'{which}_model: {broken}: tensor "model.layers.1.post_attention_layernorm.weight" holds values' in output,
                  f"{which}: {code}\n{output}")
        job.check(not os.path.exists(f"{folder}/broken/metrics.jsonl"), f"{which}: training began")
        # Of a model that is sharded no rank holds that tensor.
        code, output = start(folder, "broken", **SHARDED, **{f"{which}_model": broken})
        job.check(code == 2 and f"{which}_model: {broken}: its logits of the first batch are not finite" in output, f"{which}, sharded: {code}\n{output}")
        job.check(not os.path.exists(f"{folder}/broken/metrics.jsonl"), f"{which}, sharded: training began")
    print("ok: weights that are not finite are refused")


def check_refused(folder):
    cases = {"a temperature near 0": ({"temperature": 1e-30}, "temperature: must be at least 0.01"),
             "more epochs than a number holds": ({"num_train_epochs": 1e300, "max_steps": -1}, "num_train_epochs: must be"),
             "more steps than a number holds": ({"num_train_epochs": 1e15, "max_steps": -1}, "num_train_epochs: must be"),
             "a template of roles alone": ({"chat_template": "{% for m in messages %}{{ m.role }}\n{% endfor %}"}, "template")}
    for name, (options, message) in cases.items():
        code, output = start(folder, "refused", **options)
        job.check(code == 2 and message in output, f"{name}: exit code {code}\n{output}")
        job.check(not os.path.exists(f"{folder}/refused/metrics.jsonl"), f"{name}: training began")
        print(f"ok: {name} is refused")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=8)
    check_refused(folder)
    check_teachers(folder)
    check_students(folder)
    check_not_finite(folder)


main()
