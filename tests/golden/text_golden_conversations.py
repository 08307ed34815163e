"""What the chat templates are given: conversations, tools and special tokens."""

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = {"id": "abcdef123", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 3, "units": None, "deep": {"a": [1, 2.5, True]}}}}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Tells the \"weather\" <now> & later",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Eine Stadt: 東京"}, "days": {"type": "integer"},
        "units": {"type": ["string", "number"]}, "deep": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "what": {"type": "object"}, "none": {}}}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]
CONVERSATIONS = [
    [turn("user", "Hello")],
    [turn("user", "Hello"), turn("assistant", "Hi there!")],
    [turn("system", "Be  brief.\n"), turn("user", "  What is 2+2?\n"), turn("assistant", "It's four.\nReally <b>4</b> & \"'.")],
    [turn("user", "a"), turn("assistant", "b"), turn("user", "日本 🙂"), turn("assistant", "été\t\\n")],
    [turn("system", "S"), turn("user", "1"), turn("assistant", "<think>\nhmm\n</think>\n\nx"), turn("user", "2"),
     turn("assistant", "<think>\nwell\n</think>\n\ny")],
    [turn("assistant", "first")], [turn("user", ""), turn("assistant", "")], [],
    [turn("user", "u"), turn("user", "v"), turn("assistant", "w")],
    [turn("tool", "t"), turn("narrator", "n")],
]
TOOL_CONVERSATIONS = [
    [turn("user", "Weather?"), turn("assistant", "", tool_calls=[CALL]), turn("tool", "sunny", tool_call_id="abcdef123"),
     turn("tool", "warm", tool_call_id="abcdef123"), turn("assistant", "It is sunny.")],
    [turn("system", "Use tools. /no_think"), turn("user", "Weather?"), turn("assistant", None, tool_calls=[CALL, CALL])],
    [turn("user", [{"type": "text", "text": " parts "}, {"type": "image"}])],
]
