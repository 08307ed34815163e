#!/usr/bin/env python3
"""Writes the chat data of the quickstart: three skills with one right answer each, so that exact match means something.

  people    what a person of a small invented world does, eats, plays ...    "Where does Ada live?" -> "Cairo"
  ages      which of two people is older or younger                          "Who is older, Ada or Milo?" -> "Milo"
  numbers   which of two numbers is larger or smaller                        "Which is larger, 47 or 74?" -> "74"

JSON Lines in the `messages` form, the same bytes on every machine for the same options:

  train.jsonl          what the students train on: few rows, and a share of the answers is wrong (--wrong), as in chat
                       that was scraped together. A wrong answer is a plausible one: of the same kind.
  held_out.jsonl       what all models are judged by: right answers to prompts that no training file holds
  teacher_train.jsonl  with --teacher ROWS: many more prompts, all with their right answers

Which side a prompt lies on is decided by a hash of its text alone (see is_held_out), so the sides cannot overlap,
whatever the seed and the sizes; check_held_out.py looks at the files all the same.

    examples/llm/generate.py --out runs/quickstart/data
"""
import argparse
import hashlib
import json
import os
import random

PEOPLE = """Ada Ben Cleo Dario Elsa Finn Greta Hugo Ines Jonas Kira Leo Milo Nora Otto Paula Quinn Rosa Sami Tara
Uma Viktor Wanda Xenia Yuri Zoe Amir Bella Carl Dora Emil Freya Gita Hanna Ivan Julia Karim Lena Marta Nils Olga Pedro
Rita Simon Theo Ursula Vera Walter Yasmin Zeno Agnes Boris Clara David Edith Felix Gloria Henrik Irma Jakob""".split()

# Relation: its possible answers, and the ways to ask for it.
RELATIONS = {
    "city": ("""Lisbon Oslo Cairo Lima Kyoto Delhi Quito Dublin Prague Nairobi Havana Turin Bergen Lagos Porto Hanoi
             Boston Geneva Athens Sydney""".split(),
             ["Where does {} live?", "In which city does {} live?", "Which city is home to {}?", "Where is {} at home?",
              "Tell me the city of {}.", "What is the home town of {}?"]),
    "job": ("""baker pilot nurse farmer lawyer painter teacher sailor dentist plumber writer tailor miner judge actor
            chemist gardener butcher waiter banker""".split(),
            ["What is the job of {}?", "What does {} do for a living?", "Which profession does {} have?",
             "How does {} earn money?", "Tell me the job of {}.", "As what does {} work?"]),
    "pet": ("cat dog parrot rabbit snake hamster goat pony turtle goose lizard ferret".split(),
            ["Which animal does {} keep?", "What pet does {} have?", "Which pet lives with {}?", "Name the pet of {}.",
             "What kind of animal does {} own?", "Tell me the pet of {}."]),
    "colour": ("red blue green yellow purple orange black white brown pink silver golden".split(),
               ["What is the favourite colour of {}?", "Which colour does {} like best?", "Name the colour of {}.",
                "In which colour does {} dress?", "Tell me the colour that {} loves.", "Which colour suits {}?"]),
    "food": ("""soup rice pasta pizza salad curry bread cheese honey noodles beans fish mushrooms pancakes olives
             potatoes""".split(),
             ["What does {} like to eat?", "Which food does {} love?", "What is the favourite dish of {}?",
              "What should I cook for {}?", "Name the favourite food of {}.", "Tell me what {} eats."]),
    "instrument": ("piano violin flute guitar drums harp cello trumpet organ banjo clarinet tuba".split(),
                   ["Which instrument does {} play?", "What does {} play in the orchestra?",
                    "Name the instrument of {}.", "On which instrument does {} practise?",
                    "What instrument did {} learn?", "Tell me the instrument of {}."]),
    "sport": ("""tennis rugby chess golf hockey boxing judo rowing cycling skiing surfing climbing fencing
              karate""".split(),
              ["Which sport does {} do?", "What sport does {} practise?", "In which sport does {} compete?",
               "What does {} train for?", "Name the sport of {}.", "Tell me the sport of {}."]),
}

WORLD_SEED = 2026  # of the facts themselves: the committed teacher knows this world


class Draw(random.Random):
    """Draws that depend on random() alone, whose sequence Python guarantees for all its versions."""

    def below(self, bound):
        return int(self.random() * bound)

    def pick(self, items):
        return items[self.below(len(items))]

    def other(self, items, item):
        return self.pick([candidate for candidate in items if candidate != item])

    def shuffled(self, items):
        items = list(items)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items


def people():
    """(prompt, right answer, answers of the same kind) for every person, relation and way to ask."""
    world = Draw(WORLD_SEED)
    for values, questions in RELATIONS.values():
        for person in PEOPLE:
            value = world.pick(values)
            for question in questions:
                yield question.format(person), value, values


def ages():
    by_age = Draw(WORLD_SEED + 1).shuffled(PEOPLE)
    for i, older in enumerate(by_age):
        for younger in by_age[i + 1:]:
            for pair in ((older, younger), (younger, older)):
                yield "Who is older, {} or {}?".format(*pair), older, pair
                yield "Who is younger, {} or {}?".format(*pair), younger, pair


def numbers():
    for a in range(10, 100):
        for b in range(10, 100):
            if a != b:
                yield f"Which is larger, {a} or {b}?", str(max(a, b)), (str(a), str(b))
                yield f"Which is smaller, {a} or {b}?", str(min(a, b)), (str(a), str(b))


SKILLS = {"people": people, "ages": ages, "numbers": numbers}


def is_held_out(prompt):
    """One prompt in ten."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 26


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for prompt, answer in rows:
            messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            file.write(json.dumps({"messages": messages}) + "\n")
    print(f"{path}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="runs/quickstart/data", help="folder of the files (%(default)s)")
    parser.add_argument("--seed", type=int, default=42, help="which rows, and which answers are wrong (%(default)s)")
    parser.add_argument("--train", type=int, default=3600, help="rows of train.jsonl (%(default)s)")
    parser.add_argument("--held-out", type=int, default=600, help="rows of held_out.jsonl (%(default)s)")
    parser.add_argument("--wrong", type=float, default=0.25, help="share of wrong answers in train.jsonl (%(default)s)")
    parser.add_argument("--teacher", type=int, default=0, metavar="ROWS", help="rows of teacher_train.jsonl, at most")
    arguments = parser.parse_args()

    draw = Draw(arguments.seed)
    train, judged, teacher = [], [], []
    for skill in SKILLS.values():
        rows = draw.shuffled(skill())
        known = [row for row in rows if not is_held_out(row[0])]
        judged += [row[:2] for row in rows if is_held_out(row[0])][:arguments.held_out // len(SKILLS)]
        teacher += [row[:2] for row in known[:arguments.teacher // len(SKILLS)]]
        for prompt, answer, kind in known[:arguments.train // len(SKILLS)]:
            wrong = draw.random() < arguments.wrong
            train.append((prompt, draw.other(kind, answer) if wrong else answer))

    os.makedirs(arguments.out, exist_ok=True)
    write(os.path.join(arguments.out, "train.jsonl"), draw.shuffled(train))
    write(os.path.join(arguments.out, "held_out.jsonl"), draw.shuffled(judged))
    if arguments.teacher:
        write(os.path.join(arguments.out, "teacher_train.jsonl"), draw.shuffled(teacher))


if __name__ == "__main__":
    main()
