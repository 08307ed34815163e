"""Chat templates of published models and small constructs, rendered by jinja2 as transformers configures it."""
import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from transformers.utils.chat_template_utils import _compile_jinja_template, _render_with_assistant_indices

from chat_templates import deepseek, gemma_phi, llama, mistral, others, qwen
from text_golden_conversations import CONVERSATIONS, TOKENS, TOOL_CONVERSATIONS, TOOLS
from text_golden_expressions import EXPRESSIONS, STATEMENTS, VALUES

# name: template, what ends the assistant's turn (None: the range of its turns is not checked)
MODELS = {}
for family in (qwen, llama, mistral, gemma_phi, deepseek, others):
    MODELS |= family.MODELS


def render(name, template, variables):
    variables = {"tools": None, "documents": None, **variables}
    case = {"name": name, "template": template, "variables": variables}
    try:
        compiled = _compile_jinja_template(template)
        more = {k: v for k, v in variables.items() if k not in ("messages", "tools", "documents", "add_generation_prompt")}
        text, ranges = _render_with_assistant_indices(
            compiled, variables.get("messages"), variables.get("tools"), variables.get("documents"),
            variables.get("add_generation_prompt", False), **more)
        case["text"] = text
        if "generation" in template:
            case["ranges"] = sorted([len(text[:b].encode()), len(text[:e].encode())] for b, e in ranges)
    except Exception as error:  # jinja2's own, and the Python errors that templates run into
        case["error"] = f"{type(error).__name__}: {error}"
    return case


def turns(text, messages, end):
    """Where the assistant's contents and end-of-turn tokens lie in text, in bytes."""
    ranges, cursor = [], 0
    for message in messages:
        if message["role"] == "assistant":
            begin = max(text.find(piece, cursor) for piece in {message["content"] + end, message["content"].strip() + end})
            stop = text.find(end, begin) + len(end)
            ranges.append([len(text[:begin].encode()), len(text[:stop].encode())])
            cursor = stop
    return ranges


def model_cases():
    for name, (template, end) in MODELS.items():
        for i, messages in enumerate(CONVERSATIONS + TOOL_CONVERSATIONS):
            plain = i < len(CONVERSATIONS)
            for prompt in (False, True):
                for tools in (None, TOOLS):
                    variables = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt,
                                 "date_string": "26 Jul 2024", **TOKENS}
                    case = render(f"{name}/{i}", template, variables)
                    ends_by_answer = len(messages) > 1 and messages[-1]["role"] == "assistant"
                    if plain and end and not prompt and tools is None and "text" in case and ends_by_answer and (
                            "think" not in str(messages)) and all(m["content"] for m in messages) and "llama3.1" != name:
                        case["turns"] = turns(case["text"], messages, end)
                    yield case
        for more in ({"enable_thinking": False}, {"builtin_tools": ["brave_search", "code_interpreter"]},
                     {"tools_in_user_message": False, "tools": TOOLS}):
            yield render(f"{name}/{sorted(more)[0]}", template, {
                "messages": CONVERSATIONS[2], "add_generation_prompt": True, "date_string": "1 Jan 2025", **TOKENS, **more})


def expressions():
    """The lines of EXPRESSIONS, cut at " | "; a filter's bar is written with a backslash."""
    for line in EXPRESSIONS.strip().replace("\\\n", "\\\0").split("\n"):
        for expression in line.split(" | "):
            yield expression.replace("\\|", "|").replace("\0", "\n")


def template_cases():
    yield from model_cases()
    for i, expression in enumerate(expressions()):
        yield render(f"expression {expression}", "{{ " + expression + " }}", VALUES)
    for statement in STATEMENTS:
        yield render(f"statement {statement}", statement, VALUES)
