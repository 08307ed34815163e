"""For tests that run whole jobs: tiny models, tiny data, and distill_llm under a launcher. Standard library only."""
import atexit
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(os.environ.get("DISTILL_BUILD_DIR", os.path.join(SOURCE, "build")), "bin")
TOKENIZER = os.path.join(SOURCE, "examples", "llm", "student")


def workspace():
    """A fresh folder, removed when the test ends."""
    folder = tempfile.mkdtemp(prefix="distill-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def safetensors_header(shapes):
    """The header for {name: shape} in float32, and the bytes of data behind it."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def write_safetensors(path, tensors):
    """tensors: {name: (shape, [floats])}, written as float32."""
    with open(path, "wb") as file:
        file.write(safetensors_header({name: shape for name, (shape, _) in tensors.items()})[0])
        for _, values in tensors.values():
            file.write(struct.pack(f"<{len(values)}f", *values))


def read_safetensors(path):
    """{name: (shape, bytes)}."""
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], content[8 + size:][slice(*entry["data_offsets"])]) for name, entry in header.items()}


def make_shape(folder, hidden, layers, heads, kv_heads, intermediate, vocab, tokenizer=True):
    """A Qwen2 folder without weights, with the example's tokenizer."""
    os.makedirs(folder)
    with open(os.path.join(TOKENIZER, "config.json"), encoding="utf-8") as file:
        vocab = vocab or json.load(file)["vocab_size"]
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": vocab, "hidden_size": hidden,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "intermediate_size": intermediate, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "max_position_embeddings": 512, "tie_word_embeddings": True, "initializer_range": 0.02,
              "torch_dtype": "float32"}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    if tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(TOKENIZER, name), folder)
    return vocab


def make_model(folder, seed, hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, vocab=None, tokenizer=True):
    """A Qwen2 folder with random weights and the example's tokenizer."""
    vocab = make_shape(folder, hidden, layers, heads, kv_heads, intermediate, vocab, tokenizer)
    rng = random.Random(seed)

    def normal(*shape):
        count = 1
        for size in shape:
            count *= size
        return list(shape), [rng.gauss(0, 0.08) for _ in range(count)]

    def ones(size):
        return [size], [1.0] * size

    head_dim = hidden // heads
    tensors = {"model.embed_tokens.weight": normal(vocab, hidden), "model.norm.weight": ones(hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "self_attn.q_proj.weight": normal(hidden, hidden),
            prefix + "self_attn.q_proj.bias": normal(hidden),
            prefix + "self_attn.k_proj.weight": normal(kv_heads * head_dim, hidden),
            prefix + "self_attn.k_proj.bias": normal(kv_heads * head_dim),
            prefix + "self_attn.v_proj.weight": normal(kv_heads * head_dim, hidden),
            prefix + "self_attn.v_proj.bias": normal(kv_heads * head_dim),
            prefix + "self_attn.o_proj.weight": normal(hidden, hidden),
            prefix + "mlp.gate_proj.weight": normal(intermediate, hidden),
            prefix + "mlp.up_proj.weight": normal(intermediate, hidden),
            prefix + "mlp.down_proj.weight": normal(hidden, intermediate),
            prefix + "input_layernorm.weight": ones(hidden),
            prefix + "post_attention_layernorm.weight": ones(hidden),
        }
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    return folder


def make_chat(path, rows, seed=1, form="messages"):
    """Chats of one or two turns, of different lengths."""
    rng = random.Random(seed)
    words = "red green blue one two three sort count add name city tree river stone cloud".split()

    def text():
        return " ".join(rng.choice(words) for _ in range(rng.randint(1, 12)))

    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            turns = [("user", text()), ("assistant", text())] * rng.randint(1, 2)
            if form == "messages":
                row = {"messages": [{"role": role, "content": content} for role, content in turns]}
            else:
                row = {"conversations": [{"from": {"user": "human", "assistant": "gpt"}[role], "value": content}
                                         for role, content in turns]}
            file.write(json.dumps(row) + "\n")
    return path


def config(folder, **options):
    """A config file with the given options over small defaults."""
    values = {"seed": 42, "max_length": 64, "num_train_epochs": 1, "per_device_train_batch_size": 1,
              "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "save_steps": 0, "logging_steps": 1,
              "device": "cpu", "bf16": False, "comm_timeout_seconds": 60}
    values.update(options)
    path = os.path.join(folder, f"config-{random.randrange(1 << 40)}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file)
    return path


def command(launcher, ranks, *program):
    if launcher == "mpirun":
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *program]
    return [f"{BIN}/distillrun", "-np", str(ranks), *program]


def environment(**changes):
    """Of every job: one thread a rank, since the order of summation depends on their number; no network; and no tokens
    in the cache of whoever runs the tests."""
    if not os.environ.get("DISTILL_CACHE_DIR"):
        os.environ["DISTILL_CACHE_DIR"] = workspace()
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **changes}


def run(arguments, ranks=1, launcher="distillrun", timeout=180, program="distill_llm", **changes):
    """Runs the program to its end: (exit code, stdout and stderr together)."""
    done = subprocess.run(command(launcher, ranks, f"{BIN}/{program}", *arguments), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env=environment(**changes))
    return done.returncode, done.stdout


def must_run(*arguments, **keywords):
    code, output = run(*arguments, **keywords)
    if code != 0:
        sys.exit(f"exit code {code}:\n{output}")
    return output


def start_until(folder, arguments, ranks=2, program="distill_llm"):
    """The launcher's process, in a session of its own, once the job has made this folder (a checkpoint's): it runs on."""
    process = subprocess.Popen(command("distillrun", ranks, f"{BIN}/{program}", *arguments), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment())
    deadline = time.monotonic() + 120
    while not os.path.isdir(folder):
        check(process.poll() is None, "the job ended before it was killed: make it longer")
        check(time.monotonic() < deadline, f"no {folder} within 120 s")
        time.sleep(0.005)
    return process


def kill_after(folder, arguments, ranks=2, program="distill_llm"):
    """Kills the whole job with SIGKILL once it has made this checkpoint in its output_dir, long before it is over."""
    process = start_until(folder, arguments, ranks, program)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    check(not os.path.exists(f"{os.path.dirname(folder)}/model.safetensors"), "the job was over before it was killed: make it longer")


def records(output_dir, key="loss"):
    """The lines of metrics.jsonl with `key` (by default those of training), in order."""
    with open(os.path.join(output_dir, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if key in line]


def evaluations(output_dir):
    """The records of evaluations, but for when they were written: what a resumed run has as the undisturbed one."""
    return [{name: value for name, value in record.items() if name != "time"} for record in records(output_dir, "eval_loss")]


def metrics(output_dir, key="loss"):
    """The same by step."""
    return {line["step"]: line for line in records(output_dir, key)}


def scraped(output, name):
    """What a SageMaker metric definition finds, line by line, all of it numbers."""
    found = [match[1] for match in (re.search(rf"{name}.*=\D*(.*?)$", line) for line in output.splitlines()) if match]
    try:
        return [float(value) for value in found]
    except ValueError:
        sys.exit(f"FAILED: not numbers after {name}: {found}\n{output}")


def check_reports(out, output):
    """What a run with print_metrics and evaluations leaves for who watches it: a picture of its curves, the time in each record, and
    a line for log scrapers of each loss, the run's own last."""
    with open(os.path.join(out, "curves.png"), "rb") as file:
        picture = file.read()
    check(picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) > 10000, f"{out}: curves.png has {len(picture)} bytes of {picture[:8]}")
    times = [record["time"] for record in records(out, "step")]
    check(times == sorted(times) and time.time() - 3600 < times[0] <= times[-1] <= time.time() + 1, f"{out}: times {times}")
    for name, key in ("train_loss", "loss"), ("eval_loss", "eval_loss"):
        told, written = scraped(output, name), [record[key] for record in records(out, key) if "train_runtime" not in record]
        check(written and len(told) == len(written) + 1, f"{name} is told {len(told)} times, and recorded {len(written)} times\n{output}")
        check(all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(told, written)), f"{name} is told as {told}, and recorded as {written}")


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")
