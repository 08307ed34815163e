"""The programs of examples/ beside the Python programs that their users run today: the same first weights, data and steps."""
import csv
import json
import os
import random
import statistics
import tempfile

from suite.programs import BIN, ONE_CORE, PEERS, build, distillrun, own_results, run, say
from suite.rounds import in_rounds, lines
from suite.train_step import worthwhile_precisions

STEPS_COMPARED = 3
# What AdamW and float32 need for a parameter: weight, gradient, two moments; with bf16 a narrower copy too.
BYTES_PER_PARAMETER = {"fp32": 16, "bf16": 18}


def encoder_products(rows, length, sizes, passes=""):
    """Of the blocks of a DistilBERT: for bench_products."""
    hidden, inner, layers, heads = sizes["dim"], sizes["hidden_dim"], sizes["n_layers"], sizes["n_heads"]
    tokens, width = rows * length, hidden // heads
    return [f"{tokens}x{hidden}x{hidden}*{4 * layers}{passes}", f"{tokens}x{hidden}x{inner}*{layers}{passes}",
            f"{tokens}x{inner}x{hidden}*{layers}{passes}",
            f"{rows * heads}@{length}x{width}x{length}*{layers}{passes}", f"{rows * heads}@{length}x{length}x{width}*{layers}{passes}"]


def encoder_parameters(sizes):
    hidden, inner = sizes["dim"], sizes["hidden_dim"]
    block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    return sizes["n_layers"] * block + (sizes["vocab_size"] + sizes["max_position_embeddings"] + 2) * hidden


def bert_sizes(config):
    """In DistilBERT's names."""
    return {"dim": config["hidden_size"], "hidden_dim": config["intermediate_size"], "n_layers": config["num_hidden_layers"],
            "n_heads": config["num_attention_heads"], "vocab_size": config["vocab_size"],
            "max_position_embeddings": config["max_position_embeddings"]}


def words(count):
    return [f"w{number}" for number in range(count)]


def write_model(folder, config, count):
    """A shape without weights, and a vocabulary of `count` made words."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words(count)]) + "\n")


def as_trainer(job):
    """What the peers by transformers' Trainer are told too (bench/peers/hf_trainer.py)."""
    return {"per_device_train_batch_size": job["rows"], "learning_rate": job["learning_rate"], "lr_scheduler_type": "linear",
            "warmup_ratio": 0, "weight_decay": 0.01, "max_grad_norm": 1.0}


class Polarity:
    """DistilBERT's classifier; the texts are longer than what is taken, so that no row is padded."""
    program, peer_name, peer, python, tolerance, makes_weights = "polarity", "hf-trainer", "hf_classify.py", "peers", 1e-4, False

    def job(self, quick):
        sizes = dict(vocab_size=30522, dim=768, hidden_dim=3072, n_layers=2 if quick else 6, n_heads=12, max_position_embeddings=512)
        return {"rows": 4 if quick else 32, "length": 64 if quick else 128, "learning_rate": 5e-5, "model": sizes}

    def write(self, folder, job):
        write_model(f"{folder}/model", {"model_type": "distilbert", **job["model"]}, 2000)
        rng = random.Random(1)
        with open(f"{folder}/train.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("label", "text"))
            for row in range(job["rows"]):
                writer.writerow((row % 2, " ".join(rng.choices(words(2000), k=job["length"]))))

    def options(self, folder, job, compared):
        return {**as_trainer(job), "dataset_name": f"{folder}/train.csv", "dataset_split": "", "text_columns": "text",
                "student_model": f"{folder}/model", "max_length": job["length"], "dropout": not compared}

    def products(self, job):
        rows, hidden = job["rows"], job["model"]["dim"]
        return [*encoder_products(rows, job["length"], job["model"]), f"{rows}x{hidden}x{hidden}", f"{rows}x{hidden}x2"]

    def parameters(self, job):
        return encoder_parameters(job["model"]) + (job["model"]["dim"] + 1) * (job["model"]["dim"] + 2)


class Squad:
    """BERT with a head for spans; each question has one window, as long as a row may be."""
    program, peer_name, peer, python, tolerance, makes_weights = "squad", "hf-trainer", "hf_qa.py", "peers", 1e-4, False

    def job(self, quick):
        sizes = dict(vocab_size=30522, hidden_size=768, intermediate_size=3072, num_hidden_layers=2 if quick else 6,
                     num_attention_heads=12, max_position_embeddings=512)
        return {"rows": 2 if quick else 4, "length": 128 if quick else 384, "learning_rate": 3e-5, "model": sizes}

    def write(self, folder, job):
        write_model(f"{folder}/model", {"model_type": "bert", **job["model"]}, 2000)
        rng = random.Random(1)
        with open(f"{folder}/train.jsonl", "w", encoding="utf-8") as file:
            for row in range(job["rows"]):
                question = rng.choices(words(2000), k=10)
                context = rng.choices(words(2000), k=job["length"] - len(question) - 3)
                begin = rng.randrange(len(context) - 3)
                answer = {"text": [" ".join(context[begin:begin + 3])], "answer_start": [len(" ".join([*context[:begin], ""]))]}
                file.write(json.dumps({"id": str(row), "question": " ".join(question), "context": " ".join(context), "answers": answer}) + "\n")

    def options(self, folder, job, compared):
        return {**as_trainer(job), "do_train": True, "train_file": f"{folder}/train.jsonl", "model_name_or_path": f"{folder}/model",
                "max_seq_length": job["length"], "doc_stride": 32, "dropout": not compared}

    def products(self, job):
        return encoder_products(job["rows"], job["length"], bert_sizes(job["model"]))

    def parameters(self, job):
        return encoder_parameters(bert_sizes(job["model"]))


class DistilBert:
    """BERT-base teaches its half; compared with every word masked, so that chance has no part in it."""
    program, peer_name, peer, python, tolerance, makes_weights = "distilbert", "hf-trainer", "hf_distill_trainer.py", "peers", 1e-4, False

    def job(self, quick):
        teacher = dict(vocab_size=30522, hidden_size=768, intermediate_size=3072, num_hidden_layers=2 if quick else 12,
                       num_attention_heads=12, max_position_embeddings=512)
        student = dict(vocab_size=30522, dim=768, hidden_dim=3072, n_layers=1 if quick else 6, n_heads=12, max_position_embeddings=512)
        return {"rows": 4 if quick else 8, "length": 64 if quick else 128, "learning_rate": 5e-4, "teacher": teacher, "model": student}

    def write(self, folder, job):
        for name, kind in ("teacher", "bert"), ("model", "distilbert"):
            write_model(f"{folder}/{name}", {"model_type": kind, **job[name]}, 2000)
        rng = random.Random(1)
        with open(f"{folder}/train.jsonl", "w", encoding="utf-8") as file:
            for _ in range(job["rows"]):
                file.write(json.dumps({"text": " ".join(rng.choices(words(2000), k=job["length"] - 2))}) + "\n")

    def options(self, folder, job, compared):
        masks = {"mlm_probability": 1, "mask_replace_prob": 1, "random_replace_prob": 0} if compared else {}
        return {**as_trainer(job), **masks, "dataset_name": f"{folder}/train.jsonl", "validation_split": 0, "global_batch_size": 0,
                "teacher_model": f"{folder}/teacher", "student_checkpoint": f"{folder}/model", "max_length": job["length"],
                "dropout": not compared, "cache_dir": f"{folder}/cache"}

    def products(self, job):
        rows, length, student, teacher = job["rows"], job["length"], job["model"], bert_sizes(job["teacher"])
        hidden, vocabulary, tokens = student["dim"], student["vocab_size"], job["rows"] * job["length"]
        return [*encoder_products(rows, length, student), *encoder_products(rows, length, teacher, ":forward"),
                f"{tokens}x{hidden}x{hidden}", f"{tokens}x{hidden}x{vocabulary}", f"{tokens}x{hidden}x{hidden}:forward",
                f"{tokens}x{hidden}x{vocabulary}:forward"]

    def parameters(self, job):
        return encoder_parameters(job["model"]) + encoder_parameters(bert_sizes(job["teacher"])) / 4  # of which there are weights alone


class Brain2Text:
    """A day layer, patches and GRUs, of one trial a day; without augmentation."""
    program, peer_name, peer, python, tolerance, makes_weights = "brain2text", "pytorch", "torch_gru_ctc.py", "oracles", 1e-4, True

    def job(self, quick):
        return {"rows": 8, "days": 4, "bins": 206 if quick else 406, "features": 256, "symbols": 20, "classes": 41, "patch": 14, "stride": 4,
                "units": 256 if quick else 512, "layers": 2 if quick else 3, "learning_rate": 1e-3, "epsilon": 1e-3}

    def sessions(self, job):
        return [f"day.{number}" for number in range(job["days"])]

    def write(self, folder, job):
        pass  # the peer's --make does

    def options(self, folder, job, compared):
        return {"dataset_dir": f"{folder}/recordings", "sessions": self.sessions(job), "dataset_probability_val": [0] * job["days"],
                "batch_size": job["rows"], "days_per_batch": job["days"], "n_input_features": job["features"], "n_units": job["units"],
                "n_layers": job["layers"], "n_classes": job["classes"], "patch_size": job["patch"], "patch_stride": job["stride"],
                "lr_max": job["learning_rate"], "lr_min": job["learning_rate"], "lr_warmup_steps": 0, "weight_decay": 0, "epsilon": job["epsilon"],
                "grad_norm_clip_value": 10, "white_noise_std": 0, "constant_offset_std": 0, "random_cut": 0,
                **({"rnn_dropout": 0, "input_layer_dropout": 0} if compared else {})}

    def products(self, job):
        """The recordings need no gradient, and that of the state's weights is one product a layer, of all frames at once."""
        frames = (job["bins"] - job["patch"]) // job["stride"] + 1
        rows, units, layers, features, bins = job["rows"], job["units"], job["layers"], job["features"], job["bins"]
        return [f"{rows}@{bins}x{features}x{features}:forward", f"{rows}@{features}x{bins}x{features}:forward",
                f"{rows * frames}x{job['patch'] * features}x{3 * units}", f"{rows * frames}x{units}x{3 * units}*{layers - 1}",
                f"{rows}x{units}x{3 * units}*{frames * layers}:forward", f"{rows}x{3 * units}x{units}*{frames * layers}:forward",
                f"{3 * units}x{rows * frames}x{units}*{layers}:forward", f"{rows * frames}x{units}x{job['classes']}"]

    def parameters(self, job):
        units, features = job["units"], job["features"]
        gru = 3 * units * (features * job["patch"] + (job["layers"] - 1) * units + job["layers"] * (units + 2))
        return gru + job["days"] * (features + 1) * features + (units + 1) * job["classes"]


RECIPES = {"polarity": Polarity(), "squad": Squad(), "distilbert": DistilBert(), "brain2text": Brain2Text()}


def own_command(recipe, folder, job, out, steps, precision, compared):
    options = {**recipe.options(folder, job, compared), "output_dir": out, "max_steps": steps, "logging_steps": 1, "report_to": "jsonl",
               "save_strategy": "no", "bf16": precision == "bf16", "device": "cpu"}
    config = f"{out}.json"
    with open(config, "w", encoding="utf-8") as file:
        json.dump(options, file)
    return distillrun(1, f"{BIN}/{recipe.program}", "--config_file", config)


def run_ours(recipe, folder, job, steps, precision, compared=False):
    """The losses and how long steps took, as its records say, and the memory, which it prints at its end."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        printed = run(own_command(recipe, folder, job, f"{place}/out", steps, precision, compared), **ONE_CORE)
        with open(f"{place}/out/metrics.jsonl", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    made = [record for record in records if "step" in record and "loss" in record and "train_runtime" not in record]
    ends = [record["time"] for record in made]
    memory = next(float(line.split("=")[1]) for line in printed if line.startswith("peak_memory_gib ="))
    return {"losses": [record["loss"] for record in made], "memory_gib": memory,
            "step_seconds": [after - before for before, after in zip(ends, ends[1:])]}


def run_peer(recipe, python, folder, steps, *flags):
    found, = own_results(run([f"{python}/python", f"{PEERS}/{recipe.peer}", folder, "--steps", str(steps), *flags], **ONE_CORE))
    return found


def make_weights(recipe, python, folder, job):
    """The first weights by the peer; where it makes the data, by ours, in a step that changes nothing."""
    run([f"{python}/python", f"{PEERS}/{recipe.peer}", folder, "--make"], **ONE_CORE)
    if recipe.makes_weights:
        run(own_command(recipe, folder, {**job, "learning_rate": 1e-30}, f"{folder}/initial", 1, "fp32", True), **ONE_CORE)


def compare_losses(recipe, python, folder, job):
    """Both train from the same weights on the same rows, in float32 and without dropout."""
    ours = run_ours(recipe, folder, job, STEPS_COMPARED, "fp32", compared=True)["losses"]
    peers = run_peer(recipe, python, folder, STEPS_COMPARED, "--no-dropout")["losses"]
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, peers, strict=True))
    if not worst <= recipe.tolerance:
        raise SystemExit(f"error: {recipe.program}: the losses are {ours}, {recipe.peer}'s {peers}: they differ by {worst:.1e}")
    say(f"{recipe.program}: {STEPS_COMPARED} steps from {recipe.peer}'s weights on its rows: losses agree within {worst:.1e}")


def products_ms(recipe, job, precision):
    flags = ["--bf16"] if precision == "bf16" else []
    found, = own_results(run([f"{BIN}/bench_products", *recipe.products(job), *flags], **ONE_CORE))
    return found["products_ms"]


def figures(found, job):
    """Of a run; the first step is not among its times."""
    return {"speed": {"rate": job["rows"] / statistics.median(found["step_seconds"])}, "memory": {"gib": found["memory_gib"]}}


def in_precision(name, recipe, python, folder, job, precision, options):
    flags = ["--bf16"] if precision == "bf16" else []
    steps = 3 if options.rounds > 1 else 5
    least_gib = recipe.parameters(job) * BYTES_PER_PARAMETER[precision] / 2**30

    def ours():
        found = figures(run_ours(recipe, folder, job, steps, precision), job)
        products = products_ms(recipe, job, precision)
        say(f"a step takes {1e3 * job['rows'] / found['speed']['rate']:.0f} ms, its matrix products by themselves {products:.0f} ms")
        found["speed"]["limit_rate"] = 1e3 * job["rows"] / products
        found["memory"]["limit_gib"] = least_gib
        return found

    contestants = {"ours": ours}
    if options.peers:
        contestants[recipe.peer_name] = lambda: figures(run_peer(recipe, python, folder, steps, *flags), job)
    found = in_rounds(contestants, options.rounds)
    for kind, case, unit, figure in (("speed", f"{name}/{precision}", "samples/s", "rate"),
                                     ("memory", f"{name}/{precision}/memory", "GiB", "gib")):
        for result in lines("recipes", kind, unit, found, figure, f"limit_{figure}"):
            yield {**result, "case": case}


def bench(options):
    """Cases RECIPE/PRECISION, one rank, one thread. The limit is the step's matrix products by themselves; of memory, what weights,
    gradients and moments take."""
    environments = os.path.dirname(os.path.dirname(build(*(recipe.program for recipe in RECIPES.values()), "bench_products",
                                                         peers=options.peers)))
    for name, recipe in RECIPES.items():
        if recipe.makes_weights and not options.peers:
            say(f"{name} is left out: its data come from the peer's program (--peers)")
            continue
        python = f"{environments}/{recipe.python}/bin"
        with tempfile.TemporaryDirectory() as folder:
            job = recipe.job(options.quick)
            with open(f"{folder}/job.json", "w", encoding="utf-8") as file:
                json.dump(job, file)
            recipe.write(folder, job)
            if options.peers:
                make_weights(recipe, python, folder, job)
                compare_losses(recipe, python, folder, job)
            for precision in [options.precision] if options.precision else worthwhile_precisions(quick=True):
                say(f"{name}, {precision}")
                yield from in_precision(name, recipe, python, folder, job, precision, options)
