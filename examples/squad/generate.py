#!/usr/bin/env python3
"""Writes a small world of people in SQuAD's form, with a model of BERT's kind that has no weights yet.

  train.json, dev.json   SQuAD's own form, v1.1 (--unanswerable SHARE: v2.0, that share of the questions has no answer)
  model/                 config.json and vocab.txt of a tiny BERT: squad draws its weights with the seed

Each paragraph tells some facts of one person, in any order; a question asks for one of them. The answer is a part of the
paragraph, of one to three words. No paragraph of dev.json is in train.json. The same bytes everywhere for the same
options; standard library only.

    examples/squad/generate.py --out runs/squad-data
"""
import argparse
import hashlib
import json
import os
import random
import re

PEOPLE = """Ada Ben Cleo Dario Elsa Finn Greta Hugo Ines Jonas Kira Leo Milo Nora Otto Paula Quinn Rosa Sami Tara Uma
Viktor Wanda Xenia Yuri Zoe Amir Bella Carl Dora""".split()
FIRST = "old new upper lower east west".split()
CITIES = "Lisbon Oslo Cairo Lima Kyoto Delhi Quito Dublin Prague Nairobi Havana Turin Bergen Lagos Porto Hanoi".split()
KINDS = "night head junior senior village".split()
JOBS = "baker pilot nurse farmer lawyer painter teacher sailor dentist plumber writer tailor miner judge".split()
COLOURS = "red green blue white black brown yellow grey".split()
PETS = "cat dog parrot rabbit snake hamster goat pony turtle goose lizard ferret".split()
FOODS = "soup bread rice beans cheese salad noodles cake pie curry".split()
TASTES = "hot sweet sour cold spicy".split()
SPORTS = "chess tennis rowing judo hockey golf boxing fencing".split()

# Relation: how a paragraph tells it, how it is asked for, and its values.
RELATIONS = {
    "city": (["{0} lives in {1}.", "The home of {0} is in {1}."],
             ["Where does {0} live?", "In which city is {0} at home?"],
             lambda rng: maybe(rng, FIRST) + rng.choice(CITIES)),
    "job": (["{0} works as a {1}.", "{0} earns money as a {1}."],
            ["What is the job of {0}?", "What does {0} work as?"],
            lambda rng: maybe(rng, KINDS) + rng.choice(JOBS)),
    "pet": (["{0} keeps a {1}.", "At home {0} has a {1}."],
            ["Which animal does {0} keep?", "What is the pet of {0}?"],
            lambda rng: maybe(rng, COLOURS) + rng.choice(PETS)),
    "food": (["{0} likes {1} best.", "For dinner {0} has {1}."],
             ["What does {0} like to eat?", "Which dish is for dinner at {0}'s?"],
             lambda rng: maybe(rng, TASTES) + rng.choice(FOODS) + rng.choice(["", " with " + rng.choice(FOODS)])),
    "sport": (["On Sundays {0} plays {1}.", "{0} is good at {1}."],
              ["Which sport does {0} do?", "What does {0} play?"],
              lambda rng: rng.choice(SPORTS)),
    "year": (["{0} was born in {1}.", "The year of birth of {0} is {1}."],
             ["When was {0} born?", "In which year was {0} born?"],
             lambda rng: str(rng.randrange(1950, 1990))),
}


def maybe(rng, words):
    return rng.choice(words) + " " if rng.random() < 0.4 else ""


def paragraph(rng, person):
    """A context, and for each relation that it tells its value with the place of it."""
    told, context = {}, ""
    names = rng.sample(sorted(RELATIONS), rng.randint(3, len(RELATIONS)))
    for name in names:
        ways, _, value_of = RELATIONS[name]
        value = value_of(rng)
        sentence = rng.choice(ways)
        before = sentence.split("{1}")[0].format(person)
        context += " " if context else ""
        told[name] = (value, len(context) + len(before))
        context += sentence.format(person, value)
    return context, told


def is_held_out(context):
    return hashlib.sha256(context.encode()).digest()[0] < 26  # one in ten


def answers_of(told, name, held_out):
    """Of held-out questions, as in SQuAD, several that are right: the value, and its last word."""
    if name not in told:
        return []
    value, start = told[name]
    answers = [{"text": value, "answer_start": start}]
    last = value.split()[-1]
    if held_out and last != value and " with " not in value:
        answers.append({"text": last, "answer_start": start + len(value) - len(last)})
    return answers


def questions(rng, person, context, told, count, unanswerable):
    held_out = is_held_out(context)
    asked = rng.sample(sorted(told), min(count, len(told)))
    absent = sorted(set(RELATIONS) - set(told))
    asked = [rng.choice(absent) if absent and rng.random() < unanswerable else name for name in asked]
    for number, name in enumerate(asked):
        question = {"id": hashlib.sha256(f"{context} {number}".encode()).hexdigest()[:24],
                    "question": rng.choice(RELATIONS[name][1]).format(person),
                    "answers": answers_of(told, name, held_out)}
        if unanswerable:
            question["is_impossible"] = not question["answers"]
        yield question


def articles(rng, held_out, wanted, unanswerable):
    """One a person, until there are `wanted` questions."""
    made = {person: [] for person in PEOPLE}
    while wanted > 0:
        person = rng.choice(PEOPLE)
        context, told = paragraph(rng, person)
        if is_held_out(context) != held_out:
            continue
        asked = list(questions(rng, person, context, told, min(3, wanted), unanswerable))
        made[person].append({"context": context, "qas": asked})
        wanted -= len(asked)
    return [{"title": person, "paragraphs": paragraphs} for person, paragraphs in made.items() if paragraphs]


def vocabulary():
    """[PAD] is 0, as BERT has it; every word of the world, and single characters for the others."""
    text = " ".join(" ".join(ways + asked) for ways, asked, _ in RELATIONS.values())
    text += " " + " ".join(PEOPLE + FIRST + CITIES + KINDS + JOBS + COLOURS + PETS + FOODS + TASTES + SPORTS)
    words = set(re.findall(r"[a-z]+", text.lower())) | {str(year) for year in range(1950, 1990)}
    characters = "abcdefghijklmnopqrstuvwxyz0123456789"
    single = set(characters) | set(".,?!'-:;()")
    return (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted(words | single) + ["##" + c for c in characters])


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)


def write_model(folder, words, hidden, layers):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(word + "\n" for word in words)
    write(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    write(folder, "config.json", {
        "architectures": ["BertForQuestionAnswering"], "model_type": "bert", "vocab_size": len(words),
        "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 2 * hidden,
        "hidden_act": "gelu", "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "initializer_range": 0.05, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write to; made when it is missing")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--train", type=int, default=3000, help="questions to train on")
    parser.add_argument("--dev", type=int, default=300, help="questions to judge by")
    parser.add_argument("--unanswerable", type=float, default=0, help="share of the questions without an answer")
    parser.add_argument("--hidden", type=int, default=64, help="width of the model")
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    version = "v2.0" if options.unanswerable else "1.1"
    for name, held_out, wanted in ("train", False, options.train), ("dev", True, options.dev):
        rng = random.Random(f"{options.seed} {name}")
        write(options.out, f"{name}.json",
              {"version": version, "data": articles(rng, held_out, wanted, options.unanswerable)})
    write_model(os.path.join(options.out, "model"), vocabulary(), options.hidden, options.layers)


if __name__ == "__main__":
    main()
