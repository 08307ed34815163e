"""Expressions and statements of the template language, and the values that they see."""
from text_golden_conversations import CONVERSATIONS, TOKENS

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
'abc'.startswith('ab') | 'abc'.endswith(('x', 'bc')) | 'abc'.startswith('') | 'aXbX'.replace('X', 'y') | 'aXbX'.replace('X', 'y', 1) | 'aX'.replace('X', 'y', 'z') | 'ab'.replace('', '-')
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
numbers \| select('in', [1, 2]) \| list | tags \| safe | tags | 'aXb' \| replace('X', 'Y') | 'aX' \| replace('X', 'y', 'z') | lines \| indent | lines \| indent(2, first=true) | lines \| indent(2, blank=true)
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
    "{{ d.keys() }}{{ d.values() }}{{ d.items() }}{{ range(3) }}{{ range(1, 9, 3) }}{{ d | dictsort }}{{ d | dictsort(by='key', reverse=true) }}",
    "{{ {'b': 1, 'A': 2, 'a': 0} | dictsort(true) }}{{ {'b': 1, 'A': 3} | dictsort(false, 'value') }}{{ numbers | dictsort }}", "{{ 1 | dictsort(by='x') }}",
    "{{ [none, {'a': 1}, {'a': none}, 3] | selectattr('a') | list }}", "{{ [none, {'a': 1}] | rejectattr('a', 'none') | list }}",
    "{{ [none, nope] | select('none') | list }}{{ [none, 1] | map('string') | list }}", "{{ none | selectattr('a') | list }}",
    "{% macro m(a, b='B') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(*numbers) }}{{ m(**{'b': 3, 'a': 4}) }}{{ m(1, c=2) }}",
    "{{ range(*[1, 4]) | list }}{{ dict(**{'a': 1}) }}{{ 'a,b,c'.split(*[',', 1]) }}{{ namespace(**d).b }}", "{{ range(*none) }}", "{{ dict(**numbers) }}",
    "{% for x in numbers %}{{ loop.depth }}{{ loop.depth0 }}{% for y in words %}{{ loop.depth }}{{ loop.cycle('p', 'q') }}{{ loop.changed(y) }}{% endfor %}{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop.depth }}:{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %},{% endfor %}",
    "{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }};{% endfor %}",
    "{{ '\u0130stanbul' | lower }}{{ '\u0130' | lower | length }}{{ '\u039f\u0394\u03a5\u03a3' | lower }}{{ '\u01c5 \ufb01x \u00df' | upper }}{{ '\u01c6 \ufb01n' | title }}",
    "{{ rows | groupby('k') | map(attribute='grouper') | list }}{{ rows | sum(attribute='v') }}{{ words | sort | join }}{{ mixed | length }}",
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
