"""docs/text.md: its tables are the kinds of tokenizers that messages name, the tokenizers, templates and answers that golden tests
compare with Python's, and what is refused. text_page.py --write makes them anew."""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from made_page import table, write_or_check
from refused_folders import refused

GOLDEN = os.path.join(os.environ.get("DISTILL_BUILD_DIR", f"{job.SOURCE}/build"), "golden")
# Whose tokenizer.json has it, and how a good one is changed.
OTHER_TOKENIZERS = [
    ("words that end in a mark", "CLIP", ["model", "end_of_word_suffix"], "</w>"),
    ("dropout of merges", "", ["model", "dropout"], 0.1),
    ("bytes before they are cut into words", "", ["normalizer"], {"type": "ByteLevel"}),
    ("words by script", "", ["pre_tokenizer"], {"type": "UnicodeScripts"}),
    ("a decoder of speech", "wav2vec2", ["decoder"], {"type": "CTC", "pad_token": "_", "word_delimiter_token": "|", "cleanup": True}),
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
    changes = [(kind + (f" ({whose})" if whose else ""), keys, value) for kind, whose, keys, value in OTHER_TOKENIZERS]
    return table(["tokenizer.json has", "message"], refused(folder, "tokenizer.json", changes))


def rows_of(path):
    with open(f"{GOLDEN}/{path}", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def kind_of(part):
    """"A, B" of a sequence, "-" of nothing."""
    if part is None:
        return "-"
    several = [value for key, value in part.items() if isinstance(value, list) and key in ("normalizers", "pretokenizers", "processors", "decoders")]
    return (", ".join(map(kind_of, several[0])) or "-") if several else part["type"]


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
                           "compared_tokenizers": compared_tokenizers, "templates": templates, "answers": answers})
