"""Parquet and CSV files as pyarrow and Python's csv write them, with the rows that they hold as JSON Lines beside them; also
damaged Parquet files.  rows_golden.py FOLDER"""
import csv
import json
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import pyarrow as pa
import pyarrow.parquet as pq
from transformers.utils.chat_template_utils import _compile_jinja_template

from chat_templates.qwen import QWEN25

random.seed(7)
OUT = Path(sys.argv[1])
OUT.mkdir(parents=True, exist_ok=True)
WORDS = ["", "a", "two words", "ü", "日本語", "line\nbreak", 'a "quote", and a comma', "\t", "x" * 3000]


def word():
    return random.choice(WORDS)


def maybe(value):
    return None if random.random() < 0.2 else value


def write(name, table, **options):
    pq.write_table(table, OUT / f"{name}.parquet", **options)
    with open(OUT / f"{name}.rows", "w", encoding="utf-8") as file:
        for row in table.to_pylist():
            file.write(json.dumps({k: dict(v) if table.schema.field(k).type.id == pa.map_("string", "int64").id and v is not None else v
                                   for k, v in row.items()}, ensure_ascii=False) + "\n")


def plain(rows):
    return pa.table({
        "text": pa.array([maybe(word()) for _ in range(rows)]),
        "large": pa.array([maybe(word()) for _ in range(rows)], pa.large_string()),
        "kind": pa.array([maybe(random.choice("abc")) for _ in range(rows)]).dictionary_encode(),
        "i8": pa.array([maybe(random.randrange(-128, 128)) for _ in range(rows)], pa.int8()),
        "u32": pa.array([random.randrange(2**32) for _ in range(rows)], pa.uint32()),
        "i64": pa.array([maybe(random.randrange(-(2**62), 2**62)) for _ in range(rows)]),
        "f32": pa.array([maybe(random.randrange(-1000, 1000) / 8) for _ in range(rows)], pa.float32()),
        "f64": pa.array([random.random() for _ in range(rows)]),
        "flag": pa.array([maybe(random.random() < 0.5) for _ in range(rows)]),
        "nothing": pa.nulls(rows),
    })


def nested(rows):
    message = pa.struct([("from", pa.string()), ("value", pa.string()), ("weight", pa.int32())])
    return pa.table({
        "conversations": pa.array([maybe([{"from": random.choice(["human", "gpt"]), "value": maybe(word()), "weight": maybe(1)}
                                          for _ in range(random.randrange(4))]) for _ in range(rows)], pa.list_(message)),
        "deep": pa.array([[[maybe(random.randrange(9)) for _ in range(random.randrange(3))] for _ in range(random.randrange(3))]
                          for _ in range(rows)], pa.list_(pa.list_(pa.int64()))),
        "fixed": pa.array([maybe([1, 2]) for _ in range(rows)], pa.list_(pa.int64(), 2)),
        "map": pa.array([maybe({f"k{i}": i for i in range(random.randrange(3))}) for _ in range(rows)], pa.map_(pa.string(), pa.int64())),
    })


for codec in ["none", "snappy", "gzip", "zstd"]:
    write(f"plain_{codec}", plain(500), compression=codec, row_group_size=130)
write("plain_pages", plain(3000), data_page_size=500, row_group_size=2500, use_dictionary=False, data_page_version="2.0")
write("nested", nested(700), row_group_size=300)
write("empty", plain(0))

# As the hub has them, in their own schemas: mlabonne/FineTome-100k and TIGER-Lab/WebInstructSub. Beside each what transformers renders
# of its rows, and the answers.
ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
RENDER = _compile_jinja_template(QWEN25)
(OUT / "template.jinja").write_text(QWEN25, encoding="utf-8")


def hub_row(i):
    """Texts with what is found in such data: mathematics, code, other scripts, quotes, blank lines."""
    question = random.choice(["What is $\\frac{1}{2} + x^2$?", 'Say "no", please.', "日本語で?", "  spaces around \n", "def f(x):\n    return x\n", f"Number {i}?"])
    return question, random.choice(["It is $0.5 + x^{2}$.\n\n\\[ x = 1 \\]", "No.", "はい。🙂", "```python\nprint('x')\n```", "a\tb", f"{i}"]) + f" ({i})"


def write_hub(name, table, messages_of):
    # As the datasets library writes it: the features as metadata of the schema.
    write(name, table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {}}})}), row_group_size=1000)
    with open(OUT / f"{name}.rendered", "w", encoding="utf-8") as file:
        for row in table.to_pylist():
            messages = messages_of(row)
            file.write(json.dumps({"text": RENDER.render(messages=messages, add_generation_prompt=False),
                                   "answers": [message["content"] for message in messages if message["role"] == "assistant"]}) + "\n")


def tome_chat(i):
    turns = [{"from": who, "value": text} for _ in range(random.randrange(1, 4)) for who, text in zip(("human", "gpt"), hub_row(i))]
    return ([{"from": "system", "value": "Think step by step."}] if i % 5 == 0 else []) + turns


tome = pa.struct([("from", pa.string()), ("value", pa.string())])
write_hub("finetome", pa.table({
    "conversations": pa.array([tome_chat(i) for i in range(400)], pa.list_(tome)),
    "source": pa.array(["infini-instruct-top-500k", "WebInstructSub_axolotl"] * 200), "score": pa.array([5.0 + i / 100 for i in range(400)])}),
    lambda row: [{"role": ROLES[turn["from"]], "content": turn["value"]} for turn in row["conversations"]])
pairs = [hub_row(i) for i in range(300)]
write_hub("webinstruct", pa.table({
    "orig_question": pa.array([f"original: {question}" for question, _ in pairs]), "orig_answer": pa.array([f"original: {answer}" for _, answer in pairs]),
    "source": pa.array([random.choice(["mathstackexchange", "socratic", "stackexchange"]) for _ in pairs]),
    "question": pa.array([question for question, _ in pairs]), "answer": pa.array([answer for _, answer in pairs]),
    "index": pa.array([1_000_000 + i for i in range(300)], pa.int64())}),
    lambda row: [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": row["answer"]}])

unreadable = pa.table({"text": ["a"], "when": pa.array([0], pa.timestamp("us")), "blob": pa.array([b"x"])})
pq.write_table(unreadable, OUT / "types.parquet")

good = (OUT / "nested.parquet").read_bytes()
for i in range(300):
    bad = bytearray(good)
    kind = i % 3
    if kind == 0:
        bad = bad[: random.randrange(4, len(bad))]
    elif kind == 1:
        for _ in range(random.randrange(1, 20)):
            bad[random.randrange(4, len(bad))] ^= 1 << random.randrange(8)
    else:  # in the footer
        for _ in range(3):
            bad[random.randrange(len(bad) - 1500, len(bad))] = random.randrange(256)
    (OUT / f"bad_{i}.parquet").write_bytes(bad)

rows = [[word() for _ in range(3)] for _ in range(2000)]
for name, options in {"excel": {}, "unix": {"dialect": "unix"}, "tabs": {"delimiter": "\t"}}.items():
    ending = "tsv" if name == "tabs" else "csv"
    with open(OUT / f"{name}.{ending}", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerow(["a", "b", "c"])
        writer.writerows(rows)
    with open(OUT / f"{name}.rows", "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip("abc", row)), ensure_ascii=False) + "\n")
