"""docs/text.md: its tables are the kinds of tokenizers that messages name, the tokenizers, templates and answers that golden tests
compare with Python's, and what is refused. text_page.py --write makes them anew."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from made_page import table, write_or_check
from refused_folders import refused

GOLDEN = os.path.join(os.environ.get("DISTILL_BUILD_DIR", f"{job.SOURCE}/build"), "golden")
# Whose tokenizer.json has it, and how a good one is changed.
OTHER_TOKENIZERS = [
    ("words that end in a mark", "CLIP", "no model that is read has it", ["model", "end_of_word_suffix"], "</w>"),
    ("dropout of merges", "", "a text would have other ids each time", ["model", "dropout"], 0.1),
    ("bytes before they are cut into words", "", "no model that is read has it", ["normalizer"], {"type": "ByteLevel"}),
    ("words by script", "", "no model that is read has it", ["pre_tokenizer"], {"type": "UnicodeScripts"}),
    ("a decoder of speech", "wav2vec2", "ids of speech are no tokens of text", ["decoder"],
     {"type": "CTC", "pad_token": "_", "word_delimiter_token": "|", "cleanup": True}),
]
SOURCES = {"vocab.txt", "tokenizer.model", "spiece.model"}  # of tokenizers without tokenizer.json
PARTS = {"model": ["model", "type"], "normalizer": ["normalizer"], "pre_tokenizer": ["pre_tokenizer"],
         "post_processor": ["post_processor"], "decoder": ["decoder"]}


def tokenizers(folder):
    """What the message about an unknown kind of each part says."""
    changes = [(part, keys, "Other" if part == "model" else {"type": "Other"}) for part, keys in PARTS.items()]
    rows = [[f"`{part}`", message.split("supported: ")[1].rstrip("`")] for part, message in refused(folder, "tokenizer.json", changes)]
    return table(["part of tokenizer.json", "kinds"], rows)


def other_tokenizers(folder):
    changes = [(kind + (f" ({whose})" if whose else ""), keys, value) for kind, whose, _, keys, value in OTHER_TOKENIZERS]
    rows = refused(folder, "tokenizer.json", changes)
    return table(["tokenizer.json has", "message", "why"], [[*row, entry[2]] for row, entry in zip(rows, OTHER_TOKENIZERS)])

# What is written, and why it is refused.
OTHER_TEMPLATES = [
    ("{% include 'x' %}", "a template is one file: it may not read others"), ("{% import 'x' as x %}", "as above"), ("{% extends 'x' %}", "as above"),
    ("{% block x %}{% endblock %}", "there is nothing that extends a template"), ("{{ x | xmlattr }}", "no published chat template has it"),
    ("{{ 1 is frob }}", "a test that jinja2 does not have, either"), ("{% set x %}{% generation %}{% endgeneration %}{% endset %}", "its place in the text is unknown"),
    ("{{ 'a' * 100000000 }}", "64 MiB of text, 1 GiB in all"), ("{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}", "20,000,000 steps"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "1,000 levels"),
]


def rows_of(path):
    with open(f"{GOLDEN}/{path}", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def kind_of(part):
    """"A, B" of a sequence, "-" of nothing."""
    if part is None:
        return "-"
    several = [value for key, value in part.items() if isinstance(value, list) and key in ("normalizers", "pretokenizers", "processors", "decoders")]
    return (", ".join(map(kind_of, several[0])) or "-") if several else part["type"]


def other_templates(folder):
    """Errors of a run whose template it is, without the lists of what is supported, which the reference of filters is."""
    shutil.copytree(job.TOKENIZER, folder, dirs_exist_ok=True)
    job.make_chat(f"{folder}/chat.jsonl", rows=1)
    for template, why in OTHER_TEMPLATES:
        done = subprocess.run([f"{job.BIN}/distill_llm", "--show_batch", "--student_model", folder, "--alpha", "0", "--dataset_name", f"{folder}/chat.jsonl",
                               "--output_dir", f"{folder}/out", "--chat_template", template], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        job.check(done.returncode == 2, f"{template} is not refused: {done.stdout}")
        message = re.search(r"line 1.*?(?=; supported: abs|; supported: boolean|; change the messages|$)", done.stdout, flags=re.M)
        job.check(message is not None, done.stdout)
        yield [f"`{template}`".replace("|", "\\|"), f"`{message[0]}`", why]


def compared_tokenizers():
    rows = []
    for name in (row["name"] for row in rows_of("text/kinds.jsonl")):
        path = f"{GOLDEN}/text/{name}/tokenizer.json"
        if not os.path.exists(path):
            rows.append([f"`{name}`", f"of {', '.join(sorted(set(os.listdir(os.path.dirname(path))) & SOURCES))} alone", *["-"] * 4])
            continue
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        model = tokenizer["model"]
        flags = [flag for flag in ("byte_fallback", "ignore_merges") if model.get(flag)]
        rows.append([f"`{name}`", ", ".join([model["type"], *flags]), *(kind_of(tokenizer[part]) for part in list(PARTS)[1:])])
    return table(["tokenizer", *(part.replace("_", "-") for part in PARTS)], rows)


def templates():
    rendered, refused_ones = collections.Counter(), collections.Counter()
    for row in rows_of("text/templates.jsonl"):
        if "/" in row["name"] and not row["name"].startswith(("expression ", "statement ")):
            counter = refused_ones if "error" in row else rendered
            counter[row["name"].split("/")[0]] += 1
    return table(["template", "renderings that equal jinja2's", "that both refuse"],
                 [[f"`{name}`", str(rendered[name]), str(refused_ones[name])] for name in {**rendered, **refused_ones}])


def answers():
    """What the test chat_masks counted."""
    return table(["family", "conversations", "refused by the template", "answers trained", "context alone", "what is put behind a last answer"],
                 [[f"`{row['family']}`", *(str(row[key]) for key in ("conversations", "refused", "trained", "rewritten")),
                   f"`{row['added_end']}`" if row["added_end"] else ""] for row in rows_of("chat_masks/found.jsonl")])


folder = f"{job.workspace()}/model"
write_or_check("text.md", {"tokenizers": lambda: tokenizers(folder), "other_tokenizers": lambda: other_tokenizers(folder),
                           "compared_tokenizers": compared_tokenizers, "templates": templates,
                           "other_templates": lambda: table(["template", "message", "why, or the limit"], other_templates(folder)), "answers": answers})
