"""Which part of a conversation is trained, by the training templates of TRL: chat_masks_golden.py OUT_FOLDER

TRL ships, for many families of models, their chat template and a copy of it in which {% generation %} blocks mark what the
assistant writes. OUT_FOLDER/masks.jsonl has a line for each family and conversation: the template as published, what it
renders, and the parts that TRL's copy marks. The C++ tests find the parts without marks.
"""
import json
import os
import pathlib
import re
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from importlib.util import find_spec

from transformers.utils.chat_template_utils import _compile_jinja_template, _render_with_assistant_indices

from text_golden_conversations import TOKENS, turn

CALL = {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 3}}}
OTHER_CALL = {"id": "abcdef456", "type": "function", "function": {"name": "now", "arguments": {}}}
TOOLS = [{"type": "function", "function": {"name": name, "description": "Tells it", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": ["city"]}}}
    for name in ("get_weather", "now")]
THOUGHT = "<think>\nLet me see.\n</think>\n\n"


def chat(*contents, system=None):
    """Turns of user and assistant."""
    messages = [] if system is None else [turn("system", system)]
    return messages + [turn("assistant" if i % 2 else "user", content) for i, content in enumerate(contents)]


CONVERSATIONS = {
    "one turn": chat("Hello", "Hi there!"),
    "system": chat("What is 2+2?", "It's four.", system="Be brief."),
    "two turns": chat("a", "b", "c", "d"),
    "three turns": chat("1?", "one", "2?", "two", "3?", "three", system="Count."),
    "the same words": chat("yes", "yes", "yes", "yes"),
    "unicode": chat("日本 🙂", "été\u00a0!", "ß", "東京 🙂 مرحبا"),
    "lines": chat("Code?", "```c\nint main() {\n  return 0;\n}\n```\nThat's it."),
    "spaces around": chat("  Hello ", "  Hi there!\n", "Bye\n", "\tBye \n\n"),
    "like a header": chat("user: hi", "assistant\nuser: hi\n[INST] <s>", "<b>", "<|x|>"),
    "long": chat("Tell me.", "\n\n".join(f"Paragraph {i}: " + "words " * 40 for i in range(5))),
    "empty system": chat("Hello", "Hi!", system=""),
    "ends with a question": chat("a", "b", "c"),
    "thought": chat("Hello", THOUGHT + "Hi!"),
    "thoughts": chat("a", THOUGHT + "b", "c", THOUGHT + "d"),
    "thought in a field": [turn("user", "Hello"), turn("assistant", "Hi!", reasoning_content="Let me see.")],
    "thoughts in fields": [turn("user", "a"), turn("assistant", "b", reasoning_content="Hm."),
                           turn("user", "c"), turn("assistant", "d", reasoning_content="Hm, hm.")],
    "call": [turn("user", "Weather?"), turn("assistant", "", tool_calls=[CALL]),
             turn("tool", "sunny", name="get_weather", tool_call_id="abcdef123"), turn("assistant", "It is sunny.")],
    "calls": [turn("user", "Weather?"), turn("assistant", "I look.", tool_calls=[CALL, OTHER_CALL]),
              turn("tool", "sunny", name="get_weather", tool_call_id="abcdef123"),
              turn("tool", "12:00", name="now", tool_call_id="abcdef456"), turn("assistant", "It is sunny at noon.")],
    "call at the end": [turn("user", "Weather?"), turn("assistant", "I look.", tool_calls=[CALL])],
}
SPECIAL = r"<[|\uff5c][^<>{}\s]+[|\uff5c]>|<(?:start|end)_of_\w+>|<turn\|>|<\|turn>"  # what the families' tokenizers hold as special
IN_PARTS = ("smolvlm", "idefics3", "llava_next")  # they take content in parts alone

# What is trained otherwise, and why.
DIFFERENT = {
    ("diffusion_gemma", "call"): "its generation prompt leaves out the turn's head behind a tool's answer, so the model is to write it",
    ("diffusion_gemma", "call at the end"): "what ends a call of tools is trained: <|tool_response>",
}


def in_parts(messages):
    return [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]


def render(template, messages, tools, add_generation_prompt=False):
    return _render_with_assistant_indices(_compile_jinja_template(template), messages, tools, None, add_generation_prompt, **TOKENS)


def behind_prompt(text, prompt):
    """Where in text the generation prompt ends, or the last line or special token of it that text has."""
    common = os.path.commonprefix([text, prompt])
    if common == prompt:
        return len(common)
    return max([match.end() for match in re.finditer(SPECIAL + r"|\n", common)], default=0)


def marked_parts(training, messages, tools):
    """What TRL marks, from where the generation prompt ends, and without white space around it."""
    text, ranges = render(training, messages, tools)
    prompts = [render(training, messages[:i], tools, True)[0] for i, message in enumerate(messages) if message["role"] == "assistant" and i]
    joined, parts = [], []
    for begin, end in ranges:
        if text[begin:end].strip() == TOKENS["eos_token"]:
            continue  # behind the end of the turn, where models have stopped
        if joined and joined[-1][1] == begin:  # an answer and its end, marked apart
            begin = joined.pop()[0]
        joined.append((begin, end))
    for i, (begin, end) in enumerate(joined):
        before = joined[i - 1][1] if i else 0
        asked = [behind_prompt(text, prompt) for prompt in prompts]
        inside = [at for at in asked if begin < at < end]
        left_out = [len(prompt) for prompt in prompts if text.startswith(prompt) and before < len(prompt) < begin]
        begin = max(inside) if inside else max(left_out, default=begin)
        parts.append(text[begin:end].strip())
    return text, parts


def case(family, name, published, training):
    messages = CONVERSATIONS[name]
    tools = TOOLS if "call" in name else None
    if family in IN_PARTS:
        messages = in_parts(messages)
    row = {"family": family, "name": name, "template": published, "variables": {"messages": messages, "tools": tools},
           "different": DIFFERENT.get((family, name))}
    try:
        row["text"] = render(published, messages, tools)[0]
    except Exception as error:
        return {**row, "error": str(error)}
    try:
        marked, row["parts"] = marked_parts(training, messages, tools)
    except Exception as error:  # TRL's copy refuses what the published one renders
        return {**row, "unmarked": str(error)}
    return {**row, "same_text": marked == row["text"]}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    special = set(TOKENS.values())
    with open(out / "masks.jsonl", "w", encoding="utf-8") as file:
        for training in sorted(folder.glob("*_training.jinja")):
            family = training.name[:-len("_training.jinja")]
            published = (folder / f"{family}.jinja").read_text(encoding="utf-8")
            special.update(re.findall(SPECIAL, published))
            for name in CONVERSATIONS:
                file.write(json.dumps(case(family, name, published, training.read_text(encoding="utf-8"))) + "\n")
    (out / "special.json").write_text(json.dumps(sorted(special)))


if __name__ == "__main__":
    main()
