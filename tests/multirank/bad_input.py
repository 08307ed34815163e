"""Bad input ends the job before its first step: exit code 2 on every rank, one clear message, no hang, no stack trace."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def expect(name, output_and_code, *parts):
    code, output = output_and_code
    job.check(code == 2, f"{name}: exit code {code}\n{output}")
    for part in parts:
        job.check(re.search(part, output), f"{name}: nothing like '{part}' in\n{output}")
    for bad in ("terminate called", "Traceback", "Exception raised from", "Aborted", "Segmentation", "core dumped"):
        job.check(bad not in output, f"{name}: '{bad}' in\n{output}")
    job.check("train_loss" not in output, f"{name}: it trained\n{output}")
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    job.check(len(said) == 1, f"{name}: not one error, but {len(said)} in\n{output}")
    print(f"ok: {name}: {next(l for l in output.splitlines() if 'error' in l)[:200]}")


class Case:
    """A good job in a folder of its own, to be spoilt."""

    def __init__(self, base, name):
        self.name, self.folder = name, f"{base}/{name.replace(' ', '-')}"
        shutil.copytree(f"{base}/good", self.folder)
        self.options = {"dataset_name": f"{self.folder}/chat.jsonl", "teacher_model": f"{self.folder}/teacher",
                        "student_model": f"{self.folder}/student", "output_dir": f"{self.folder}/out", "max_steps": 2}

    def path(self, name):
        return os.path.join(self.folder, name)

    def edit_json(self, name, **values):
        with open(self.path(name), encoding="utf-8") as file:
            content = json.load(file)
        content.update(values)
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(content, file)

    def expect(self, *parts, arguments=(), ranks=2, program=None, **environment):
        expect(self.name, job.run(["--config_file", job.config(self.folder, **self.options), *arguments], ranks=ranks,
                                  timeout=90, **environment), *parts)


def damaged_files(base):
    case = Case(base, "missing teacher")
    shutil.rmtree(case.path("teacher"))
    case.expect(r"teacher_model: no folder .*teacher")

    case = Case(base, "weights in another format")
    os.rename(case.path("student/model.safetensors"), case.path("student/pytorch_model.bin"))
    case.expect(r"pytorch_model\.bin", "safetensors")

    case = Case(base, "truncated weights")
    os.truncate(case.path("student/model.safetensors"), os.path.getsize(case.path("student/model.safetensors")) // 2)
    case.expect(r"student/model\.safetensors")

    case = Case(base, "damaged config")
    with open(case.path("student/config.json"), "a", encoding="utf-8") as file:
        file.write("}")
    case.expect(r"student/config\.json")

    case = Case(base, "damaged tokenizer")
    os.truncate(case.path("student/tokenizer.json"), 1000)
    case.expect(r"student_model: .*student/tokenizer\.json")

    case = Case(base, "damaged chat template")
    with open(case.path("my.jinja"), "w", encoding="utf-8") as file:
        file.write("{% for")
    case.options["chat_template"] = case.path("my.jinja")
    case.expect(r"chat_template: .*my\.jinja")

    case = Case(base, "tensor of the wrong shape")
    case.edit_json("student/config.json", intermediate_size=72)
    case.expect(r"mlp\.(gate|up|down)_proj\.weight", r"\[?64, ?32|32, ?64", r"72", r"model\.safetensors")

    case = Case(base, "unsupported model type")
    case.edit_json("teacher/config.json", model_type="mamba2")
    case.expect("mamba2", "qwen2", "llama")


def bad_data(base):
    case = Case(base, "missing data set")
    os.remove(case.path("chat.jsonl"))
    case.expect(r"chat\.jsonl")

    case = Case(base, "empty data set")
    open(case.path("chat.jsonl"), "w", encoding="utf-8").close()
    case.expect(r"chat\.jsonl", "(?i)empty|no ")

    case = Case(base, "cut last line")
    os.truncate(case.path("chat.jsonl"), os.path.getsize(case.path("chat.jsonl")) - 20)
    case.expect(r"chat\.jsonl:40")

    case = Case(base, "no row with an answer")
    with open(case.path("chat.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n")
    case.expect(r"chat\.jsonl", "answer")

    case = Case(base, "two rows without an answer")
    with open(case.path("chat.jsonl"), "a", encoding="utf-8") as file:
        file.write(2 * (json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n"))
    case.expect(r"chat\.jsonl has 2 bad rows among 42", r"chat\.jsonl:41: no answer", r"chat\.jsonl:42: no answer")

    case = Case(base, "split of a file")
    case.options["dataset_split"] = "validation"
    case.expect("dataset_split is 'validation'", r"dataset_name is the file .*chat\.jsonl")

    case = Case(base, "split of a held-out file")
    case.options |= {"eval_dataset_name": case.path("chat.jsonl"), "eval_split": "validation"}
    case.expect("eval_split is 'validation'", r"eval_dataset_name is the file .*chat\.jsonl")

    case = Case(base, "s3 path")
    case.options["dataset_name"] = "s3://bucket/chat.jsonl"
    case.expect("s3://")


LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123456\n"


def before_data_are_read(base):
    """Paths and models are looked at first: the rows here are broken, and nothing says so."""
    def case_of(name):
        case = Case(base, name)
        with open(case.path("chat.jsonl"), "w", encoding="utf-8") as file:
            file.write("no row\n")
        return case

    case = case_of("teacher of an unknown family before data")
    case.edit_json("teacher/config.json", model_type="mamba2")
    case.expect("teacher_model: .*mamba2")

    case = case_of("teacher without weights before data")
    os.remove(case.path("teacher/model.safetensors"))
    case.expect(r"teacher_model: .*teacher.*safetensors")

    case = case_of("no held-out data before data")
    case.options |= {"eval_dataset_name": case.path("none.jsonl"), "eval_strategy": "steps", "eval_steps": 1}
    case.expect(r"eval_dataset_name: .*none\.jsonl")

    for name, option in (("teacher/model.safetensors", "teacher_model"), ("student/model.safetensors", "student_model"),
                         ("student/config.json", "student_model"), ("student/tokenizer.json", "student_model"),
                         ("chat.jsonl", "dataset_name")):
        case = case_of(f"{name.replace('/', ' ')} is a pointer of Git LFS")
        with open(case.path(name), "w", encoding="utf-8") as file:
            file.write(LFS_POINTER)
        case.expect(f"{option}.*{re.escape(case.path(name))}.*Git LFS.*git lfs pull")


def a_batch_needs_few_options(base):
    case = Case(base, "a batch without teacher and output_dir")
    options = {key: case.options[key] for key in ("dataset_name", "student_model")}
    output = job.must_run(["--config_file", job.config(case.folder, **options), "--show_batch", "true"])
    job.check("<|im_start|>" in output, f"no conversation was printed:\n{output}")
    job.check(not os.path.exists(case.path("out")), "a batch made an output_dir")
    for key in options:
        left = {**options, key: ""}
        code, output = job.run(["--config_file", job.config(case.folder, **left), "--show_batch", "true"])
        job.check(code == 2 and f"{key} is missing" in output, f"a batch without {key}: {code}\n{output}")
    print(f"ok: {case.name}")


def bad_options(base):
    case = Case(base, "unknown config key")
    case.options["learning_rat"] = 1e-4
    case.expect("learning_rat", "learning_rate")
    Case(base, "unknown option").expect("tempratur", "temperature", arguments=["--tempratur", "2"])
    if not os.path.exists("/fsx"):
        case = Case(base, "nowhere to write")
        del case.options["output_dir"]
        case.expect("output_dir: it is /fsx/model by default, and there is no /fsx here")
    Case(base, "bad value").expect("num_train_epochs", arguments=["--num-train-epochs", "many"])
    Case(base, "two precisions").expect("bf16 and fp16", arguments=["--fp16", "true", "--bf16", "true"])
    Case(base, "layers to unfreeze").expect("layers_to_unfreeze", arguments=["--layers_to_unfreeze", "x.yaml"])
    Case(base, "flash attention on a CPU").expect("use_flash_attention", arguments=["--use_flash_attention", "true"])
    Case(base, "no such backend").expect("comm_backend", "token-ring", arguments=["--comm_backend", "token-ring"])
    Case(base, "no such device").expect("device", arguments=["--device", "tpu"])


def different_ranks(base):
    case = Case(base, "ranks with different configs")
    other = job.config(case.folder, **{**case.options, "learning_rate": 5e-4})
    same = job.config(case.folder, **case.options)
    script = f'if [ "$DISTILL_RANK" = 1 ]; then c={other}; else c={same}; fi; exec {job.BIN}/distill_llm --config_file $c'
    expect(case.name, job_shell(script), "learning_rate", "rank 0", "rank 1", "0.0005", "0.001")

    case = Case(base, "one rank without a teacher")
    paths = f"{case.path('student')} {case.path('chat.jsonl')} {case.path('out')}"
    script = (f'if [ "$DISTILL_RANK" = 1 ]; then t=/no/such/teacher; else t={case.path("teacher")}; fi; '
              f'exec {job.BIN}/first $t {paths}')
    expect(case.name, job_shell(script), "rank 1", "/no/such/teacher")

    one_rank_alone(base)

    case = Case(base, "tokenizers that differ")
    with open(case.path("student/tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    vocab = tokenizer["model"]["vocab"]
    by_id = {index: token for token, index in vocab.items()}
    vocab[by_id[50]], vocab[by_id[51]] = 51, 50
    case.edit_json("student/tokenizer.json", model=tokenizer["model"])
    case.expect("(?i)token", r"\b50\b")


def one_rank_alone(base):
    """What one rank finds before the ranks have met ends the others too, by itself: nobody has to end them."""
    for launcher, rank in (("distillrun", "$DISTILL_RANK"), ("mpirun", "$OMPI_COMM_WORLD_RANK")):
        for name, change, *parts in (("bad option", "a='--alpha two'", "--alpha", "'two'"),
                                     ("unknown option", "a='--alpa 1'", "--alpa", "--alpha"),
                                     ("no config file", "c=/no/such.yaml", "/no/such.yaml"),
                                     ("no such device", "a='--device cuda'", "device: cuda")):
            case = Case(base, f"{name} on one rank under {launcher}")
            same = job.config(case.folder, **{**case.options, "comm_backend": "shm"})
            script = (f'c={same}; if [ "{rank}" = 1 ]; then {change}; fi; '
                      f'{job.BIN}/distill_llm --config_file $c $a; code=$?; echo "exit code $code"; exit $code')
            start = time.monotonic()
            code, output = job_shell(script, launcher)
            job.check(time.monotonic() - start < 30, f"{case.name}: took {time.monotonic() - start:.0f} s")
            job.check("ending them" not in output, f"{case.name}: the launcher had to end a rank\n{output}")
            expect(case.name, (code, output), "rank 1 on ", *parts)
            if launcher == "distillrun":  # mpirun ends the other shell as soon as one exits
                job.check(output.count("exit code 2") == 2, f"{case.name}: not 2 on both ranks\n{output}")


def job_shell(script, launcher="distillrun"):
    done = subprocess.run(job.command(launcher, 2, "/bin/sh", "-c", script), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=90,
                          env=job.environment(CUDA_VISIBLE_DEVICES=""))
    return done.returncode, done.stdout


def main():
    base = job.workspace()
    job.make_model(f"{base}/good/teacher", seed=1)
    job.make_model(f"{base}/good/student", seed=2)
    job.make_chat(f"{base}/good/chat.jsonl", rows=40)
    damaged_files(base)
    bad_data(base)
    before_data_are_read(base)
    a_batch_needs_few_options(base)
    bad_options(base)
    different_ranks(base)


main()
