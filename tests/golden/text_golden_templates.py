"""Chat templates of published models and small constructs, rendered by jinja2 as transformers configures it."""
import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from transformers.utils.chat_template_utils import _compile_jinja_template, _render_with_assistant_indices

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
          "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
         "You are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
         "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN25 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
QWEN3 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
          "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
          "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message + builtin tools #}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have access to the following functions.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}

{#- Custom tools are passed in a user message with some extra guidance #}
{%- if tools_in_user_message and not tools is none %}
    {#- Extract the first user message so we can plug it in here #}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {{- "Given the following functions, please respond with a JSON for a function call.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {%- if builtin_tools is defined %}
            {{- "<|eom_id|>" }}
        {%- else %}
            {{- "<|eot_id|>" }}
        {%- endif %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""
MISTRAL = ("{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
           "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
           "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
           "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}"
           "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
MISTRAL_V3 = r"""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{#- This block checks for alternating user/assistant messages, skipping tool calling messages #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
            {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
         "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
         "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
         "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
         "{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
GEMMA3 = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
PHI3 = ("{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + "
        "'<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI4 = ("{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is "
        "not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + "
        "'<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}")
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
DEEPSEEK_V2 = ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
               "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + "
               "message['content'] + '\n\n' }}{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + "
               "message['content'] + eos_token }}{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}"
               "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
DEEPSEEK_R1 = ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
               "{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}"
               "{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = "
               "message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}"
               "{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}"
               "{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and "
               "message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}"
               "{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + "
               "'<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + "
               "tool['function']['arguments']|tojson + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}"
               "{%- else %}{{'\\n' + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁call▁end｜>'}}"
               "{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor %}{%- endif %}"
               "{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}"
               "{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}"
               "{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}"
               "{% set content = content.split('</think>')[-1] %}{% endif %}"
               "{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}"
               "{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}"
               "{{'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}"
               "{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜tool▁output▁begin｜>' + message['content'] + "
               "'<｜tool▁output▁end｜>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}"
               "{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}"
               "{{'<｜Assistant｜>'}}{% endif %}")
SMOLLM3 = r"""{# ───── defaults ───── #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{# ───── reasoning mode ───── #}
{%- if enable_thinking -%}
  {%- set reasoning_mode = "/think" -%}
{%- else -%}
  {%- set reasoning_mode = "/no_think" -%}
{%- endif -%}
{{- "<|im_start|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "## Metadata\n\nReasoning Mode: " + reasoning_mode + "\n\n" -}}
{%- if custom_instructions -%}
  {{- custom_instructions + "\n\n" -}}
{%- endif -%}
{{- "<|im_end|>\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\n"  + content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\n"  + content + "<|im_end|>\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {%- if reasoning_mode == "/think" -%}
        {{ "<|im_start|>assistant\n" }}
    {%- else -%}
        {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n"  }}
    {%- endif -%}
{%- endif -%}
"""
GENERATION = ("{% for message in messages %}{{ '<|' + message.role + '|>\n' }}{% if message.role == 'assistant' %}"
              "{% generation %}{% set seen = loop.index %}{{ message.content }}é{{ eos_token }}{% endgeneration %}"
              "{{ seen }}{% else %}{{ message.content }}{% endif %}\n\n{% endfor %}")
COMMAND_R = r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command-R.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""
LLAMA2 = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
          "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
          "{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
          "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
          "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
          "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
          "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
          "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
HERMES = r"""{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool"
} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "list[" +  json_to_python_type(json_spec|items) + "]"}}
{%- elif json_spec.type == "object" %}
    {%- if json_spec.additionalProperties is defined %}
        {{- "dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
    {%- else %}
        {{- "dict" }}
    {%- endif %}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}
        {{- "," }}
    {%- endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{{- bos_token }}
{{- '<|im_start|>system\nYou are a function calling AI model. Here are the available tools: <tools> ' }}
{%- for tool in tools %}
    {%- if tool.function is defined %}
        {%- set tool = tool.function %}
    {%- endif %}
    {{- '{"type": "function", "function": ' }}
    {{- '{"name": "' + tool.name + '", ' }}
    {{- '"description": "' + tool.name + '(' }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}
        {{- param_name + ": " + json_to_python_type(param_fields) }}
        {%- if not loop.last %}
            {{- ", " }}
        {%- endif %}
    {%- endfor %}
    {{- ")" }}
    {{- " - " + tool.description + "\n\n" }}
    {{- '", "parameters": ' }}
    {%- if tool.parameters.properties | length == 0 %}
        {{- "{}" }}
    {%- else %}
        {{- tool.parameters|tojson }}
    {%- endif %}
    {{- "}" }}
    {%- if not loop.last %}
        {{- "\n" }}
    {%- endif %}
{%- endfor %}
{{- " </tools><|im_end|>\n" }}
{%- for message in messages %}
    {%- if message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}
            {{- '<|im_start|>tool\n' }}
        {%- endif %}
        {{- '<tool_response>\n' }}
        {{- message.content }}
        {%- if not loop.last %}
            {{- '\n</tool_response>\n' }}
        {%- else %}
            {{- '\n</tool_response>' }}
        {%- endif %}
        {%- if not loop.last and loop.nextitem.role != "tool" %}
            {{- '<|im_end|>' }}
        {%- elif loop.last %}
            {{- '<|im_end|>' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content|default('', true) + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

# name: template, what ends the assistant's turn (None: the range of its turns is not checked)
MODELS = {
    "chatml": (CHATML, "<|im_end|>"), "qwen2": (QWEN2, "<|im_end|>"), "qwen2.5": (QWEN25, "<|im_end|>"),
    "qwen3": (QWEN3, None), "llama2": (LLAMA2, None), "llama3": (LLAMA3, "<|eot_id|>"),
    "llama3.1": (LLAMA31, "<|eot_id|>"), "mistral": (MISTRAL, "</s>"), "mistral_v3": (MISTRAL_V3, None),
    "gemma": (GEMMA, "<end_of_turn>"), "gemma3": (GEMMA3, "<end_of_turn>"), "phi3": (PHI3, None), "phi4": (PHI4, None),
    "zephyr": (ZEPHYR, "</s>"), "deepseek_v2": (DEEPSEEK_V2, None), "deepseek_r1": (DEEPSEEK_R1, "<｜end▁of▁sentence｜>"),
    "smollm3": (SMOLLM3, None), "generation": (GENERATION, None), "command_r": (COMMAND_R, "<|END_OF_TURN_TOKEN|>"),
    "hermes": (HERMES, None),
}


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

VALUES = {
    "text": "  Hello, Wörld!  ", "word": "naïve", "empty": "", "n": 7, "minus": -3, "f": 2.5, "yes": True, "no": False,
    "nothing": None, "numbers": [3, 1, 2], "words": ["b", "A", "c", "a"], "mixed": [1, "x", None, 2.5, [True]],
    "d": {"b": 1, "a": {"x": "y"}, "items": "shadowed"}, "tags": "<a href=\"x\">'&'</a>",
    "rows": [{"k": "x", "v": 1, "in": {"s": 2}}, {"k": "y", "v": 3}, {"k": "x", "v": 2, "in": {"s": 1}}],
    "lines": "one\n two\n\nthree", "cjk": "日本語🙂é", "messages": CONVERSATIONS[2], **TOKENS,
}
EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 % 2 ** 3 | 7 / 2 | -7 // 2 | -7 % 3 | 7 % -3 | 7.5 // 2 | 2 ** -1 | -2 ** 2 | 1e3 | 1.0 | 0.1 + 0.2
1e16 | 1e-5 | 123456789.123 | 1_000 | 'a' ~ 1 ~ none ~ true ~ 2.0 | 'a' + 'b' 'c' | 'ab' * 3 | 3 * [1, 'x'] | [1] + [2]
(1,) + (2, 3) | () | (1) | {'a': 1, "b": [1, {'c': none}]} | {} | 'it\'s' | "q\"q" | ['it\'s', "q\"", 'n\n\t\\', 'é', '\x01']
'\u00e9\x41\101\q\
z' | 1 < 2 < 3 | 1 < 2 > 3 | 1 == 1.0 | 1 == true | 'a' < 'b' | [1, 2] < [1, 3] | 'a' == 1 | none == none | n in numbers
3 in numbers | 'x' not in d | 'b' in d | 'ell' in text | 1 in (1, 2) | not yes | not no and yes | yes and 'x' or 'y' | empty or 'z'
no and 1 | 0 or none | 'x' if yes else 'y' | 'x' if no | ('x' if no else 'y') if yes else 'z' | 'a' if yes else 'b' if no else 'c'
numbers[0] | numbers[-1] | numbers[5] | numbers[1:] | numbers[::-1] | numbers[:-1] | numbers[-2:] | numbers[5:] | numbers[::2]
text[2] | text[2:7] | cjk[0] | cjk[-2] | cjk[::-1] | cjk[1:3] | word[:2] | d.b | d['a'].x | d.a['x'] | d.nope | d['nope']
d['items'] | rows[0].k | rows[1]['in'] | rows[0]['in']['s'] | numbers.0 | nope | nope is defined | nope is undefined | d.nope is defined
text is string | n is number | n is integer | f is float | yes is boolean | yes is integer | yes is number | nothing is none
nothing is not none | d is mapping | numbers is mapping | numbers is sequence | text is sequence | d is iterable | n is iterable
numbers is iterable | n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | n is eq 7 | n is equalto(8) | n is ne(8)
n is gt 3 | n is lessthan 3 | 3 is in numbers | yes is true | no is false | n is true | not n is none | nope is none | nope is mapping
nope is sequence | nope is iterable | range is callable | text.strip() | text.lstrip() | text.rstrip() | text.strip(' H!') | 'xxaxx'.strip('x')
text.upper() | word.upper() | 'ÀÉß'.lower() | 'straße'.upper() | 'hello wORLD it\'s x2y'.title() | 'hELLO'.capitalize() | ''.capitalize()
'a,b,,c'.split(',') | ' a  b '.split() | 'a,b,c'.split(',', 1) | 'a b c'.split(none, 1) | 'a,b,c'.rsplit(',', 1) | 'a b'.split(' ')
'abc'.startswith('ab') | 'abc'.endswith(('x', 'bc')) | 'abc'.startswith('') | 'aXbX'.replace('X', 'y') | 'aXbX'.replace('X', 'y', 1) | 'ab'.replace('', '-')
'abcabc'.find('c') | 'abc'.find('x') | 'cabc'.rfind('c') | 'abab'.count('ab') | '-'.join(['a', 'b']) | ','.join('abc') | 'a\nb\n'.splitlines()
'12'.isdigit() | '1a'.isdigit() | ' '.isspace() | 'prefix_x'.removeprefix('prefix_') | 'x.txt'.removesuffix('.txt')
d.keys() \| list | d.values() \| list | d.items() \| list | d.get('b') | d.get('z') | d.get('z', 5) | numbers.index(2) | numbers.count(3)
text \| trim | text \| length | cjk \| length | numbers \| count | d \| length | nope \| length | text \| trim \| upper | word \| capitalize
'the end of-it (now) it\'s' \| title | 'A' \| lower | 5 \| string | nope \| string | none \| string | '42' \| int | '4.7' \| int | 'x' \| int | 'x' \| int(9)
4.9 \| int | '1.5' \| float | 'x' \| float | -3 \| abs | nope \| default('z') | empty \| default('z') | empty \| default('z', true) | none \| d('q')
none \| default('q', boolean=true) | numbers \| first | numbers \| last | [] \| first | 'abc' \| first | 'abc' \| last | 'abc' \| list | nope \| list
numbers \| join | words \| join(', ') | rows \| join('-', attribute='k') | nope \| join('x') | mixed \| join('/') | d \| items \| list | nope \| items \| list
numbers \| sort | words \| sort | words \| sort(case_sensitive=true) | words \| sort(reverse=true) | rows \| sort(attribute='v') \| map(attribute='v') \| list
words \| unique \| list | numbers \| reverse \| list | 'abc' \| reverse | numbers \| min | numbers \| max | words \| map('upper') \| list
rows \| map(attribute='in.s', default='?') \| list | rows \| map(attribute='k') \| join | ['a b', 'c'] \| map('replace', ' ', '_') \| list
rows \| selectattr('k', 'equalto', 'x') \| list \| length | rows \| selectattr('in') \| list \| length | rows \| rejectattr('k', 'eq', 'x') \| list
rows \| selectattr('in', 'defined') \| map(attribute='v') \| list | numbers \| select('gt', 1) \| list | numbers \| reject('odd') \| list | mixed \| select \| list
numbers \| select('in', [1, 2]) \| list | tags \| safe | tags | 'aXb' \| replace('X', 'Y') | lines \| indent | lines \| indent(2, first=true) | lines \| indent(2, blank=true)
d \| tojson | mixed \| tojson | tags \| tojson | cjk \| tojson | cjk \| tojson(ensure_ascii=true) | rows \| tojson(indent=2) | [] \| tojson(indent=2) | {} \| tojson
d \| tojson(sort_keys=true) | d \| tojson(separators=(',', ':')) | 'a\x00\x1f\x7f\u2028"\\/\b' \| tojson | 1.0 \| tojson | {1: 2, none: 3, true: 4} \| tojson | nope \| tojson
range(3) \| list | range(1, 10, 3) \| list | range(3, 0, -1) \| list | namespace(a=1).a | dict(a=1, b='x') | dict(d, z=2).z | range(200000)
messages[0]['content'] \| trim + '|' | messages \| length | messages[-1].role | messages[1:][0].content.strip() | (n + 1) \| string + 'x' | -n \| abs | n \| string \| length
nope.x | nope['x'] | nope + 1 | 1 + 'a' | 'a' + 1 | nope() | d.b() | text.nope() | [] < {} | 1 / 0 | 1 % 0 | none + 'a' | raise_exception('no') | d.pop('b') | numbers.append(1)
none.x | none.x.y | 5.x | text.x | n[0] | n \| length | none \| length | nope in text | 'a' in nope | nope == nothing | nope == other | nope < 1 | [nope] | none \| upper | none \| trim
'abc'[1] ~ 'abc'[-4:] ~ 'abc'[:100] | [[1, 2], [3]] \| map('length') \| list | 'x' is in 'xyz' | 'a' if nope else 'b' | (1, 2) == [1, 2] | [1, [2]] == [1, [2]] | {'a': 1} == {'a': 1.0}
'%' ~ '}}' ~ '{{' | "#}" | {'a': {'b': 1}}['a']['b'] | {'a': 1}.a | [1, 2,] | {'a': 1,} | (1, 2,) | 1 if 2 | 1 is defined and 2 is none or 3 is integer
"""
STATEMENTS = [
    "{% for x in numbers %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in numbers %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for x in numbers %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}|{% endfor %}",
    "{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ loop.index }}{{ x }}/{{ loop.length }} {% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in numbers if x > 9 %}a{% else %}none {{ n }}{% endfor %}",
    "{% for x in numbers %}a{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}", "{% for c in cjk %}[{{ c }}]{% endfor %}", "{% for x in nope %}a{% endfor %}",
    "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for x in 5 %}a{% endfor %}", "{% for x in none %}a{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in numbers %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, y=[]) %}{% for i in numbers %}{% set ns.x = ns.x + i %}{% set ns.y = ns.y + [i] %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns['x'] }}{{ ns.z }}",
    "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}", "{% set d.b = 5 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% if no %}a{% elif n == 7 %}b{% elif yes %}c{% else %}d{% endif %}", "{% if nope %}a{% endif %}{% if yes %}{% set z = 3 %}{% endif %}{{ z }}",
    "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% for y in numbers %}{% break %}{% endfor %}!{% endfor %}",
    "{% set t %}a{{ n }}\n{% for x in numbers %}{{ x }}{% endfor %}{% endset %}[{{ t }}]{{ t | length }}",
    "{% macro m(a, b='B', c=a) %}({{ a }}{{ b }}{{ c }}{{ n }}){% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(a='x', b='y') }}{{ m() }}",
    "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}{% set s = m(2) ~ '!' %}{{ s }}{{ s | length }}",
    "{% macro m(a) %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% for i in numbers %}{% macro inner(x) %}{{ i }}{{ x }}{% endmacro %}{{ inner('a') }}{% endfor %}",
    "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}  \n  b\n  {% endif %}\n  c", "a {%- if yes -%} b {%- endif -%} c",
    "  {%+ if yes %}a{%+ endif %}", "  {{ n }}  \n  {{- n -}}  \n x", "{# a #}\n  {# b #}\n x {#- c -#} y\n{#+ d #} z", "{% if yes -%}\n\n  a\n{%- endif %}\n\nb",
    "x\n\n", "x\r\ny\rz\n", "\n\n{% if yes %}\n\n{% endif %}\n\n", "{% if yes +%}\na{% endif +%}\nb", "{{ n +}}", "{{ '\n' }}\n{% set x = 1 %}\n{{ x }}\n\n{%- set y = 2 %}\n  {{ y }}",
    "  {% for x in numbers %}\n    {{ x }}\n  {% endfor %}\nend", "{% raw %}{{ n }}{% if %}{% endraw %}!", "  {%- raw -%}  {{ x }}  {%- endraw -%}  y", "a\n  {% raw %}\n b {# #}\n  {% endraw %}\nc",
    "{{ messages[0].role }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content|trim }}{% endif %}{% endfor %}",
    "{%- for m in messages | selectattr('role', 'in', ['user', 'system']) -%}{{ m.role }},{%- endfor -%}",
    "{% set x = messages | map(attribute='content') | list %}{{ x | length }}", "{% if messages | selectattr('role', 'equalto', 'tool') | list %}a{% else %}b{% endif %}",
    "{{ {'a': {'b': 2}} | tojson }}{{ {'x': '}}'} }}", "{% set x = {'a': 1} %}{{ x['a'] }}{{ x.b is defined }}", "{{ 'a' }}{# {{ n }} #}{{ 'b' }}",
    "{{", "{% if", "{% if yes %}", "{% endif %}", "{{ 1 + }}", "{{ 'abc }}", "{# abc", "{% foo %}", "{% include 'x' %}", "{{ n | nofilter }}", "{{ n is notest }}", "{% for x %}{% endfor %}", "{{ (1 }}",
    "{% for x in numbers %}{% endif %}", "{{ n n }}", "{% break %}", "{{ f(*numbers) }}", "{% set x %}", "{% else %}", "{{ 1 is defined is defined }}",
    "{{ strftime_now('%Y') | length }}{{ strftime_now is defined }}", "{{ loop }}", "{{ '' }}{{ none }}{{ true }}{{ 1.50 }}{{ [] }}{{ [none, true, 'x', 1.0] }}",
    "{% set content = '<x>' %}{% for m in [1] %}{% set content = content ~ m %}{{ content }}{% endfor %}{{ content }}",
    "é{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
]


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
