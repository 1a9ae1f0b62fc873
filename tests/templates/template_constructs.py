"""The constructs of the template language, one snippet each: (template, variables)."""

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <|im_end|> there\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Sagt das Wetter für \"Orte\" voraus <&>",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                       "required": ["city"]},
    },
}
V = {
    "n": 7, "zero": 0, "neg": -3, "f": 2.5, "big": 2**62, "s": "Hello World", "u": "Grüße 😀 日本語", "e": "",
    "sp": " \t\n x y \u00a0", "l": [3, 1, 2], "words": ["b", "A", "c", "B"], "d": {"b": 1, "a": [1, None, True], "C": "x"},
    "none_": None, "yes": True, "no": False, "nested": {"x": {"y": [{"z": 5}]}}, "messages": MESSAGES, "tools": [TOOL],
    "people": [{"name": "Ann", "age": 30, "city": {"n": "Oslo"}}, {"name": "bob", "age": 25, "city": {"n": "Rome"}},
               {"name": "Cy", "age": 30, "city": {"n": "oslo"}}],
    "q": "it's", "qq": "say \"hi\"", "both": "it's \"x\"", "html": "<a href='x'>&\"</a>", "multi": "one\n\ntwo\r\nthree\n",
}

SNIPPETS = r'''
{{ s }}
{{ none_ }}|{{ yes }}|{{ no }}|{{ n }}|{{ f }}|{{ missing }}|
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456.789 }} {{ 1e100 }} {{ -0.0 }} {{ 1.5e300 * 1e10 }}
{{ 0.1 + 0.2 }} {{ 1/3 }} {{ 2/1 }} {{ 7//2 }} {{ -7//2 }} {{ 7%3 }} {{ -7%3 }} {{ 7%-3 }} {{ 7.5//2 }} {{ -7.5%2 }} {{ 2**10 }} {{ 2**-1 }} {{ 2**0.5 }}
{{ big + big }} {{ big * big }} {{ 10**30 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000_000 }} {{ 1_0.5 }}
{{ -n }} {{ +n }} {{ --n }} {{ -2 ** 2 }} {{ (-2) ** 2 }} {{ 2 ** 3 ** 2 }} {{ -n|abs }} {{ -3|abs }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1 + 's' }}
{{ 's' + 1 }}
{{ none_ + 1 }}
{{ missing + 1 }}
{{ 'a' + missing }}
{{ true + true }} {{ true * 3 }} {{ false - 1 }} {{ true == 1 }} {{ 1 == 1.0 }} {{ 'a' == 'a' }} {{ [1, 2] == [1, 2.0] }} {{ (1,) == [1] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 < 2 > 1 }} {{ 3 > 2 >= 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) < (1,) }} {{ 'Z' < 'a' }}
{{ 1 < 'a' }}
{{ none_ < 1 }}
{{ missing < 1 }}
{{ missing == missing2 }} {{ missing == none_ }} {{ missing == '' }} {{ missing != missing }} {{ none_ == none }}
{{ 'lo' in s }} {{ 'xx' not in s }} {{ 3 in l }} {{ 'b' in d }} {{ 5 not in l }} {{ 'a' in missing }} {{ none_ in [none] }}
{{ 1 in 'abc' }}
{{ 1 in none_ }}
{{ missing in 'abc' }}
{{ [] in d }}
{{ not 1 in l }} {{ not yes or yes }} {{ not (yes and no) }} {{ yes and 'x' }} {{ no or 'y' }} {{ '' or none_ }} {{ 0 and missing.foo }}
{{ 'a' ~ 1 ~ none_ ~ true ~ 1.5 ~ missing ~ [1, 'x'] }} {{ 1 ~ 2 + 3 }} {{ 'a' ~ 'b' * 2 }}
{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ (1, 2) + (3,) }} {{ [1] + [2] }} {{ 'x' * -1 }}
{{ [1] + (2,) }}
{{ 'yes' if yes else 'no' }} {{ 'a' if no }}| {{ 'a' if no else 'b' if no else 'c' }} {{ ('x' if yes) ~ 'z' }}
{{ ('x' if no).foo }}
{{ [1, 'a', none, true, 1.0, [2], (3,), {'k': 'v'}] }}
{{ (1,) }} {{ () }} {{ (1, 2) }} {{ [] }} {{ {} }} {{ {'a': 1, 2: 'b', none: 1.5, true: [], (1, 2): {}} }}
{{ ['it\'s', 'say "x"', 'both \' "', 'new\nline\ttab\r', 'back\\slash', 'ünï', '\x00\x1f\x7f', '\u00a0', '\u200b', '😀', '\U0010ffff'] }}
{{ q }} {{ [q, qq, both] }} {{ {'k': u} }} {{ ['\u2028', '\u3000', '\u00ad', '\ud7ff', '\u0378'] }}
{{ d }} {{ l }} {{ people[0] }} {{ nested }} {{ messages }}
{{ d.b }} {{ d['b'] }} {{ d.missing }}| {{ d['missing'] }}| {{ nested.x.y[0].z }} {{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ s[0] }} {{ s[-1] }} {{ u[6] }} {{ u[-1] }}
{{ l.0 }} {{ nested.x.y.0.z }} {{ l['0'] }}| {{ l[true] }} {{ l[1.0] }}|
{{ missing.foo }}
{{ missing['foo'] }}
{{ d.missing.foo }}
{{ d['missing']['foo'] }}
{{ none_.foo }}| {{ none_['foo'] }}| {{ n.foo }}| {{ s.foo }}| {{ s['foo'] }}|
{{ none_.foo.bar }}
{{ d[l] }}|{{ d[none] }}|{{ d[missing] }}|{{ s[missing] }}|
{{ s[1:4] }} {{ s[:3] }} {{ s[3:] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-3:] }} {{ s[:-3] }} {{ s[5:2] }}| {{ s[100:] }}| {{ s[-100:2] }} {{ s[4:1:-1] }} {{ s[::-2] }}
{{ u[1:3] }} {{ u[::-1] }} {{ u[6:7] }} {{ u[-3:] }} {{ u[:0] }}|
{{ l[1:] }} {{ l[::-1] }} {{ l[:-1] }} {{ l[-2:] }} {{ (1, 2, 3)[1:] }} {{ l[none:2] }} {{ l[::3] }} {{ l[5:] }} {{ l[-1:0:-1] }}
{{ l[::0] }}
{{ l['a':] }}
{{ none_[1:] }}
{{ missing[1:] }}
{{ d[1:] }}
{{ range(5)[1:3] }} {{ range(3) }} {{ range(1, 10, 3) }} {{ range(5)|list }} {{ range(5, 0, -2)|list }} {{ range(3)[1] }} {{ range(3)[-1] }} {{ 2 in range(3) }} {{ range(0) }} {{ range(3)|length }}
{{ range(100001) }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ 'a' 'b' "c" }} {{ '\u12' }}
{% if yes %}A{% elif no %}B{% else %}C{% endif %} {% if no %}A{% elif yes %}B{% else %}C{% endif %} {% if no %}A{% elif no %}B{% else %}C{% endif %} {% if missing %}x{% endif %}
{% if l %}l{% endif %}{% if [] %}x{% endif %}{% if {} %}x{% endif %}{% if '' %}x{% endif %}{% if 0 %}x{% endif %}{% if 0.0 %}x{% endif %}{% if none %}x{% endif %}{% if ' ' %}sp{% endif %}
{% for x in l %}{{ x }},{% endfor %} {% for x in [] %}x{% else %}empty{% endfor %} {% for x in missing %}x{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {% for k in d.keys() %}{{ k }}{% endfor %}
{% for c in u %}[{{ c }}]{% endfor %}
{% for x in n %}{% endfor %}
{% for x in none_ %}{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }};{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for (a, b) in [(1, 2)] %}{{ a }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.last }};{% endfor %} {% for x in l if x > 9 %}x{% else %}none{% endfor %} {% for x in l if x > 1 %}{{ loop.length }}{{ loop.revindex }};{% endfor %}
{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }} {% endfor %}{% for x in [1] %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}
{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %} {% for x in [1, 2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2, 3] if y > loop.index %}{{ x }}{{ y }} {% endfor %}{% endfor %}
{% for x in [1] %}{{ loop.foo }}|{{ loop }}{% endfor %}
{% for x in [1] %}{{ loop.foo.bar }}{% endfor %}
{% for x in l|select('odd') %}{{ loop.length }}{{ x }}{{ loop.last }} {% endfor %} {% for x in l|map('string') %}{{ loop.nextitem }}|{{ loop.revindex }} {% endfor %}
{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in [1, 2] %}{% break %}{% else %}else{% endfor %}|
{% for x in [1, 2, 3] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% if x == 2 %}{% break %}{% endif %}{% endfor %} {% for x in [1] %}{% continue %}{% else %}E{% endfor %}
{% break %}
{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in [] %}{% else %}{% break %}{% endfor %}
{% for y in [1, 2] %}{% for x in [] %}{% else %}{{ y }}{% break %}{% endfor %}{% endfor %}
{% for item in [{'n': 1, 'c': [{'n': 2, 'c': []}, {'n': 3}]}] recursive %}{{ item.n }}{{ loop.depth }}({{ loop(item.c) if item.c }}){% endfor %}
{% for item in [1] %}{{ loop([2]) }}{% endfor %}
{% for x in [1, 2] recursive %}{{ x }}{{ loop.index }}{% if x == 1 %}{{ loop([5, 6]) }}{% endif %}{% else %}none{% endfor %}
{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }} {% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 5 %}{{ x }};{% endfor %}{{ x }} {% if yes %}{% set x = 9 %}{% endif %}{{ x }} {% for i in [1] %}{% set inner = 1 %}{% endfor %}{{ inner }}|
{% set ns = namespace(a=1, b='x') %}{{ ns.a }}{{ ns.b }}{% set ns.a = 5 %}{{ ns.a }}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.c }}|{{ ns.c is defined }} {% set ns.c = [1] %}{{ ns.c }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }} {{ ns is mapping }}{{ ns is iterable }}{{ ns is defined }} {% set ns2 = namespace() %}{% set ns2.x, ns2.y = 1, 2 %}{{ ns2.x + ns2.y }} {{ ns }}
{% set notns = {} %}{% set notns.a = 1 %}
{% set undefinedns.a = 1 %}
{% set ns = namespace() %}{% set ns.text %}abc{{ n }}{% endset %}{{ ns.text }}
{% set true = 1 %}
{% set x.y.z = 1 %}
{% set 'a' = 1 %}
{% set loop = 1 %}{{ loop }}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% for loop in l %}{% endfor %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m(b=4, a=5) }}{{ m() }}{{ m(*[1, 2]) }}{{ m(**{'a': 7}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }} {% macro k(a=b, b=3) %}{{ a }}|{{ b }}{% endmacro %}{{ k() }}
{% macro m(x) %}{% set x = x + 1 %}{{ x }}{% if x < 4 %}{{ m(x) }}{% endif %}{% endmacro %}{{ m(1) }} {{ m.name }}{{ m.arguments }} {{ m is callable }}{{ m is defined }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ g }}{% endmacro %}{% set g = 3 %}{{ a() }}
{% macro outer() %}{% macro inner() %}I{{ v }}{% endmacro %}{% set v = 1 %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body {{ n }}{% endcall %} {% macro w(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b=9) w(1) %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}{% if caller %}{{ caller() }}{% else %}nocaller{% endif %}{% endmacro %}{{ m() }}{% call m() %}C{% endcall %}
{% call 5 %}x{% endcall %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}  padded  {% endmacro %}[{{ m()|trim }}] [{{ m() ~ 'x' }}] {{ m()|length }}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b')|upper %}banana{% endfilter %} {% filter trim %}  x  {% endfilter %}|
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}| {% with %}{% set q2 = 1 %}{{ q2 }}{% endwith %}{{ q2 }}| {% with x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{% endwith %}
{% generation %}abc {{ n }}{% set gg = 1 %}{% endgeneration %}{{ gg }}| {% for x in [1, 2] %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% raw %}{{ not }} {% this %} {# nor #}{% endraw %} a {%- raw -%}  x  {%- endraw -%} b
{% print 1, 'a' %} {% print n %}
a  {%- if yes -%}  b  {%- endif -%}  c
a  {{- s -}}  b {{- '' }} c {{ '' -}} d
{{ s }}
{%if yes%}tight{%endif%}{{n}}{{-n-}}
{{ s | upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ 'it\'s a-b (c) [d] <e> {f}'|title }} {{ 'ß ŉ ﬁ'|upper }} {{ 'ΑΣ Σ ΑΣΒ'|lower }} {{ 'İ'|lower }} {{ 'ǆ'|capitalize }} {{ u|upper }} {{ 5|upper }} {{ none_|lower }}
[{{ sp|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ 'abcba'|trim('ab') }}] [{{ 5|trim }}] [{{ missing|trim }}]
{{ l|length }} {{ s|length }} {{ u|length }} {{ d|length }} {{ missing|length }} {{ [1, 2]|count }} {{ ''|length }}
{{ n|length }}
{{ none_|length }}
{{ (l|select('odd'))|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ []|first }}| {{ []|last }}| {{ d|first }} {{ d|last }} {{ ''|first is undefined }} {{ missing|first is defined }}
{{ (l|map('string'))|last }}
{{ l|join }} {{ l|join(', ') }} {{ words|join('-') }} {{ people|join(',', attribute='name') }} {{ [1, none, true, 1.5, 'x', [2]]|join('|') }} {{ 'abc'|join('.') }} {{ missing|join }}| {{ d|join(',') }} {{ people|join(d=';', attribute='city.n') }}
{{ n|join }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ words|sort(true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }} {{ people|sort(attribute='city.n')|map(attribute='name')|list }} {{ 'cab'|sort }} {{ d|sort }}
{{ [1, 'a']|sort }}
{{ [none, 1]|sort }}
{{ l|reverse|list }} {{ s|reverse }} {{ u|reverse }} {{ (1, 2)|reverse|list }} {{ d|reverse|list }} {{ range(3)|reverse|list }} {{ l|map('string')|reverse }}
{{ n|reverse }}
{{ l|list }} {{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }} {{ missing|list }} {{ range(2)|list }} {{ d.items()|list }}
{{ n|list }}
{{ l|sum }} {{ people|sum(attribute='age') }} {{ [1.5, 2]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ []|sum }} {{ l|sum(start=10) }}
{{ ['a']|sum }}
{{ l|min }} {{ l|max }} {{ words|min }} {{ words|max }} {{ words|max(case_sensitive=true) }} {{ people|max(attribute='age') }} {{ []|min }}| {{ 'hello'|max }}
{{ [1, 'a']|max }}
{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }}
{{ [[1], [1]]|unique|list }}
{{ people|groupby('age') }} {% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %} {% for k, v in people|groupby('city.n') %}{{ k }}{{ v|length }};{% endfor %} {{ people|groupby('zip', default='none')|length }} {{ people|groupby('city.n', case_sensitive=true)|map('first')|list }}
{{ people|map(attribute='name')|list }} {{ people|map(attribute='zip', default='?')|list }} {{ people|map(attribute='city.n')|join(',') }} {{ words|map('upper')|list }} {{ ['a']|map('replace', 'a', 'b')|list }} {{ l|map('string')|map('length')|list }} {{ people|map(attribute='zip')|list }} {{ missing|map('upper')|list }} {{ [[1, 2]]|map('sum')|list }} {{ [[1, 2]]|map(attribute=0)|list }}
{{ l|map|list }}
{{ l|map('nofilter')|list }}
{{ l|map(attribute='a', foo=1)|list }}
{{ l|select|list }} {{ l|select('odd')|list }} {{ l|select('>', 1)|list }} {{ l|reject('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1]|reject|list }} {{ l|select('in', [1, 2])|list }} {{ l|select('divisibleby', 3)|list }} {{ ['a', 1]|select('string')|list }} {{ missing|select|list }}
{{ people|selectattr('age', 'equalto', 30)|map(attribute='name')|list }} {{ people|selectattr('age', '>', 26)|list|length }} {{ people|rejectattr('age', 'eq', 30)|map(attribute='name')|list }} {{ people|selectattr('zip', 'defined')|list }} {{ people|selectattr('name')|list|length }} {{ people|rejectattr('zip')|list|length }} {{ messages|selectattr('role', 'equalto', 'user')|list }} {{ messages|selectattr('role', '==', 'system')|first }} {{ messages|selectattr('role', 'in', ['user', 'tool'])|list|length }}
{{ people|selectattr('city.n', 'equalto', 'Rome')|map(attribute='age')|first }}
{{ people|selectattr|list }}
{{ l|select('notest')|list }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(reverse=true) }} {{ {'a': 2, 'b': 1}|dictsort(false, 'value') }} {% for k, v in d|dictsort %}{{ k }}{% endfor %}
{{ l|dictsort }}
{{ d|dictsort(by='foo') }}
{{ {1: 2, 'a': 1}|dictsort }}
{{ d|items|list }} {% for k, v in d|items %}{{ k }}:{{ v }} {% endfor %} {{ missing|items|list }} {{ {}|items|list }}
{{ l|items|list }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ []|batch(2)|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'f')|list }} {{ l|batch(5)|list }}
{{ missing|default('x') }} {{ none_|default('x') }} {{ none_|default('x', true) }} {{ ''|default('x') }} {{ ''|d('x', true) }} {{ missing|default }}| {{ d.missing|default(5) }} {{ d.b|default(5) }} {{ missing|default(default_value='z') }} {{ no|default(1, boolean=true) }}
{{ missing.foo|default('x') }}
{{ 'abc'|replace('b', 'X') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'aaa'|replace('', '-') }} {{ 5|replace(5, 6) }} {{ 'aXa'|replace('X', none) }} {{ u|replace('ß', 'ss') }} {{ 'aaa'|replace('a', '', count=1) }}
{{ '5'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ '0x1f'|int(base=16) }} {{ 'ff'|int(0, 16) }} {{ '1.9'|int }} {{ 2.9|int }} {{ -2.9|int }} {{ none_|int }} {{ true|int }} {{ ' 42 '|int }} {{ '1_000'|int }} {{ '1e3'|int }} {{ 'inf'|int }} {{ 'nan'|int(3) }} {{ '٣'|int }} {{ '12345678901234567890'|int }} {{ '0b11'|int(0, 2) }} {{ ''|int }} {{ []|int(7) }}
{{ missing|int }}
{{ '5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ '1e3'|float }} {{ none_|float }} {{ 'inf'|float }} {{ '-Infinity'|float }} {{ 'nan'|float }} {{ ' 1.5 '|float }} {{ '1_0.5'|float }} {{ '0x10'|float }} {{ true|float }}
{{ 2.567|round }} {{ 2.567|round(2) }} {{ 2.5|round }} {{ 3.5|round }} {{ -2.5|round }} {{ 2.1|round(method='ceil') }} {{ 2.99|round(1, 'floor') }} {{ 7|round }} {{ 1234.567|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ 0.285|round(2) }} {{ 1.005|round(2) }} {{ 7|round(1, 'ceil') }} {{ 1e300|round(2) }}
{{ 2.5|round(method='up') }}
{{ 's'|round }}
{{ s|string }} {{ 5|string }} {{ none_|string }} {{ l|string }} {{ missing|string }}| {{ true|string ~ 'x' }} {{ 1.0|string }}
{{ 'a %s b %d' % ('x', 5) }} {{ '%s' % 5 }} {{ '%5.2f|%-5s|%05d|%+d|% d' % (3.14159, 'ab', 42, 7, 8) }} {{ '%x %X %o %#x' % (255, 255, 8, 255) }} {{ '%e %E %g %G' % (12345.678, 0.00012, 1e10, 0.0001) }} {{ '%%' % () }} {{ '%(a)s %(b)d' % {'a': 'x', 'b': 2} }} {{ '%r %s' % ('a', 'a') }} {{ '%s' % [1, 2] }} {{ '%s' % none }} {{ '%c' % 'x' }} {{ '%.3s|%10s|' % ('abcdef', 'r') }} {{ '%*d' % (5, 42) }} {{ '%i' % 3.9 }} {{ '%s' % missing }}|
{{ '%d' % 'a' }}
{{ '%s %s' % 1 }}
{{ '%s' % (1, 2) }}
{{ 'x' % 1 }}
{{ '%q' % 1 }}
{{ '%(a)s' % 1 }}
{{ '%s %s'|format('a', 1) }} {{ '%(x)s'|format(x=5) }} {{ 'none'|format }} {{ '%.1f'|format(2.25) }}
{{ '%s'|format(1, x=2) }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x} {y[0]} {z.b}'.format(x=1, y=l, z=d) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}|'.format('a', 'b', 'c', 'd') }} {{ '{:.2f} {:5d} {:05d} {:,} {:x} {:#x} {:b} {:e} {:%} {:+}'.format(3.14159, 42, 42, 1234567, 255, 255, 5, 1234.5, 0.25, 3) }} {{ '{{}} {!r} {!s}'.format('a', 'b') }} {{ '{:{w}}|'.format('a', w=5) }} {{ '{0} {0}'.format(1) }} {{ '{}'.format(none) }} {{ '{:10.3}|{:g}|{:G}|{:_}'.format('abcdef', 1.5, 1e20, 1000000) }} {{ '{:.3}'.format(1234.5) }} {{ '{:d}'.format(true) }} {{ '{}'.format(true) }}
{{ '{}'.format() }}
{{ '{a}'.format(1) }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{} {0}'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(1) }}
{{ '{:5}'.format(none) }}
{{ '{0.__class__}'.format('a') }}|{{ '{x.foo}'.format(x='a') }}|
{{ '{x}'.format_map({'x': 5}) }} {{ s.format() }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ none_|tojson }} {{ true|tojson }} {{ 1.0|tojson }} {{ u|tojson }} {{ html|tojson }} {{ tools|tojson }} {{ {}|tojson }} {{ []|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ "\"\\/\b\f\n\r\t\x01\x7f\u2028"|tojson }}
{{ d|tojson(indent=2) }} {{ {'a': [], 'b': {}, 'c': [1, {'d': 2}]}|tojson(indent=4) }} {{ l|tojson(indent=0) }} {{ d|tojson(indent='--') }} {{ l|tojson(indent=none) }}
{{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ tools|tojson(indent=2, ensure_ascii=False, separators=(',', ': ')) }} {{ d|tojson(true) }} {{ [1, 2]|tojson(separators=[', ', ':']) }} {{ 1e100|tojson }} {{ 1e-7|tojson }} {{ big|tojson }} {{ 'inf'|float|tojson }} {{ 'nan'|float|tojson }}
{{ missing|tojson }}
{{ (l|map('string'))|tojson }}
{{ namespace()|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ {'a': 1, 1: 2}|tojson(sort_keys=true) }}
{{ d.items()|tojson }}
{{ multi|indent }} {{ multi|indent(2) }} {{ multi|indent(2, true) }} {{ multi|indent(2, first=false, blank=true) }} {{ 'x'|indent('> ', true) }} {{ ''|indent }}| {{ 'a\nb'|indent(width=1) }} {{ 'a\n'|indent }}|
{{ 5|indent }}
{{ 'hello big world out there'|truncate(11) }} {{ 'hello big world'|truncate(9, true, '..', 0) }} {{ 'short'|truncate }} {{ 'hello world'|truncate(8, leeway=0) }} {{ u|truncate(5, true, '', 0) }}
{{ 'abc'|truncate(1) }}
{{ 'a b  c'|wordcount }} {{ 'x'|center(5) }}| {{ 'xy'|center(5) }}| {{ 'x'|center(4) }}|
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|forceescape }} {{ html|escape|escape }} {{ 5|e }} {{ [html|safe] }} {{ (html|safe) ~ '<' }} {{ (html|safe) + '<' }} {{ '<' + (html|safe) }} {{ ('<%s>'|safe) % '<' }} {{ (html|e)|length }} {{ 'x'|safe is string }} {{ 'x'|safe == 'x' }} {{ 'x'|safe is escaped }} {{ ('<'|safe).join(['>', '>'|safe]) }} {{ ['<', '>'|safe]|join('&') }} {{ ('a<b'|safe)|upper + '<' }} {{ ('a b'|safe).split(' ') }} {{ ('a'|safe)|replace('a', '<') }} {{ ('a'|safe).replace('a', '<') }} {{ ('<'|safe)[0] + '<' }} {{ ('{}'|safe).format('<') }} {{ 'x' in ('xy'|safe) }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ s is string }} {{ n is number }} {{ f is float }} {{ n is integer }} {{ yes is integer }} {{ yes is boolean }} {{ yes is true }} {{ no is false }} {{ yes is number }} {{ none_ is none }} {{ missing is none }} {{ missing is undefined }} {{ n is defined }} {{ d is mapping }} {{ l is mapping }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ missing is sequence }} {{ l is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ none_ is iterable }} {{ (l|map('string')) is iterable }} {{ (l|map('string')) is sequence }} {{ d.items() is sequence }} {{ (1, 2) is sequence }} {{ range(2) is sequence }}
{{ 1 is sameas 1 }} {{ none_ is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ l is sameas l }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 3 }} {{ n is gt 3 }} {{ n is lessthan 3 }} {{ n is ge 7 }} {{ n is le 7 }} {{ 2 is in l }} {{ 'x' is in 'xyz' }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ '1' is lower }} {{ s is not string }} {{ missing is not defined }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ raise_exception is callable }} {{ s is callable }} {{ s.upper is callable }} {{ 'x' is escaped }} {{ missing is callable }}
{{ 's' is odd }}
{{ none_ is even }}
{{ n is divisibleby 0 }}
{{ x is nosuchtest }}
{{ x|nosuchfilter }}
{% if no %}{{ x|nosuchfilter }}{{ x is nosuchtest }}{% endif %}ok
{% if yes %}{{ x|nosuchfilter }}{% endif %}
{{ 'a' if yes else x|nosuchfilter }}
{{ x|nosuchfilter if no else 'b' }}
{% if no %}{% for x in l %}{{ x|nosuchfilter }}{% endfor %}{% endif %}
{{ n is even is odd }}
{{ not n is odd }} {{ n is odd and yes }} {{ n is odd or no }} {{ 'a' if n is odd else 'b' }} {{ -1 is number }} {{ l[0] is eq 3 }} {{ n + 1 is even }} {{ 'x' ~ 3 is string }} {{ d.b is defined and d.b == 1 }} {{ missing is defined and missing.x }} {{ 4 is divisibleby 2 and yes }} {{ n is eq 7 ~ 'x' }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ "they're bill's"|title }} {{ "they're bill's".title() }} {{ 'ǅ'.title() }} {{ 'ßx'.capitalize() }} {{ 'ΑΣ'.lower() }}
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c '.split() }} {{ ' a b c'.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('') if no }} {{ 'aXXbXXc'.split('XX') }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'a.b.c'.partition('.') }} {{ 'a.b.c'.rpartition('.') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'a b'.split(maxsplit=1) }} {{ 'a,b'.split(sep=',') }} {{ 'a  b'.split(' ') }} {{ 'x'.rsplit(none, 0) }} {{ ' x y'.rsplit(none, 1) }} {{ ' a b '.split(none, 0) }} {{ 'aaa'.split('aa') }} {{ 'aaa'.rsplit('aa') }}
{{ 'abc'.split('') }}
[{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'xyaxy'.lstrip('xy') }}] [{{ 'xyaxy'.rstrip('yx') }}] [{{ 'a\n\n'.rstrip('\n') }}] [{{ 'äöä'.strip('ä') }}] [{{ '\x1c a\x85'.strip() }}] [{{ 'x'.strip('') }}]
{{ s.startswith('He') }} {{ s.startswith(('x', 'He')) }} {{ s.endswith('ld') }} {{ s.startswith('lo', 3) }} {{ s.endswith('o', 0, 5) }} {{ s.startswith('') }} {{ s.endswith(()) }} {{ s.startswith('x', 100) }} {{ s.startswith('', 100) }} {{ u.endswith('語') }}
{{ s.startswith(5) }}
{{ s.startswith(['He']) }}
{{ s.startswith() }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'aaa'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ ''.replace('', 'x') }} {{ u.replace('ü', 'ue') }}
{{ s.replace('l', 5) }}
{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ u.find('😀') }} {{ s.index('W') }} {{ s.count('l') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.find('l', -3) }} {{ s.find('') }} {{ s.find('', 99) }} {{ s.rfind('l', 0, 5) }} {{ u.count('', 2) }}
{{ s.index('zz') }}
{{ '-'.join(['a', 'b']) }} {{ ''.join('abc') }} {{ ', '.join(d) }} {{ '-'.join([]) }}| {{ '-'.join(words|map('upper')) }}
{{ '-'.join([1]) }}
{{ 'x'.center(5, '*') }} {{ 'xy'.center(5, '*') }} {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '0') }} {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'a\tb'.expandtabs(4) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }} {{ 'xyz'.center(6, '*') }} {{ 'xyz'.center(2) }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ '12'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ ' \t'.isspace() }} {{ ''.isspace() }} {{ 'aB'.islower() }} {{ 'AB1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'ab'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ 'Äb'.isalpha() }} {{ '٣'.isdecimal() }} {{ ''.isascii() }} {{ '日'.isalpha() }}
{{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 'def') }} {{ d.get(none) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.copy() }} {{ d.items()|length }} {{ 'b' in d.keys() }} {{ d.keys()|join(',') }} {{ d.items()|first }} {{ d.items()|last }}
{{ d.get() }}
{{ d.get([]) }}
{{ d.get('x', default=1) }}
{{ d.items()[0] }}|
{{ d.update({'x': 1}) }}
{{ d.pop('b') }}
{{ d.setdefault('x', 1) }}
{{ d.clear is defined }} {{ d.clear }}| {{ l.append is defined }} {{ l.append }}| {{ d.items is defined }} {{ d['items'] is defined }} {{ d['clear'] is defined }} {{ l['append'] is defined }} {{ l['count'] is defined }} {{ s['upper'] is defined }}
{{ l.append(1) }}
{{ l.pop() }}
{{ l.sort() }}
{{ l.clear() }}
{% set _ = l.append(1) %}
{{ l.index(1) }} {{ l.count(1) }} {{ l.copy() }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }} {{ l.index(2, 1) }}
{{ l.index(99) }}
{{ {'items': 5}.items is callable }}{{ {'items': 5}['items'] }} {{ {'get': 1}['get'] }} {{ {'x': 5}.x }} {{ {'_p': 1}._p }} {{ {'_p': 1}['_p'] }} {{ {'__class__': 1}['__class__'] }} {{ {'pop': 3}['pop'] }}
{{ s.__class__ }}|{{ s['__class__'] }}|{{ l.__len__ }}|{{ none_.__class__ }}|{{ d.__class__ is defined }}
{{ s.__class__.__mro__ }}
{{ ''.__class__.__subclasses__() }}
{{ s.__len__() }}
{{ raise_exception.__globals__ }}|{{ range.__class__ }}|{{ namespace.__init__ }}|
{{ raise_exception.__globals__.os }}
{{ cycler.__init__.__globals__.os }}
{{ self.__init__.__globals__ }}
{{ s|attr('__class__') }}|{{ d|attr('b') }}|{{ s|attr('upper') is callable }}|{{ s|attr('nope') }}|
{{ (s|attr('__class__')).x }}
{{ n.real }} {{ n.imag }} {{ n.numerator }} {{ f.real }} {{ n.bit_length() }} {{ 2.0.is_integer() }} {{ yes.real }} {{ n.denominator }} {{ f.imag }}
{{ s() }}
{{ none_() }}
{{ missing() }}
{{ d.missing() }}
{{ n(1) }}
{{ s.nomethod() }}
{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict({'x': 1}, y=2) }} {{ dict() }} {{ dict(a=1).a }}
{{ dict(5) }}
{{ dict([1]) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }} {% set j = joiner('|') %}{{ j() }}x{{ j() }}y{{ j() }} {% set k = joiner() %}{{ k() }}{{ k() }}
{{ cycler() }}
{{ raise_exception('stop ' ~ n) }}
{{ raise_exception() }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %d %H:%M:%S %j %%') }} {{ strftime_now('') }}|
{{ namespace(1) }}
{{ (1, 2)|first }} {{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }} {{ [1, [2, [3]]][1][1][0] }} {{ 'abc'[1]|upper }} {{ 'a,b'.split(',')[1]|upper ~ 'c' }} {{ (s|upper)[0:3] }} {{ s|upper|lower|title|length }} {{ ('a' ~ 'b')|upper }} {{ [s, u]|map('length')|sum }} {{ 'x'|default('y')|upper }} {{ -1|string }} {{ 1 + 2|string|int }} {{ not none_|default(false) }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {'k': none}['k'] is none }} {{ {n: s}[7] }} {{ {'a' ~ 'b': 1}.ab }}
{{ }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ 'unclosed }}
{{ 1 2 }}
{{ a b }}
{{ 1 = 2 }}
{{ 1 && 2 }}
{{ a ? b : c }}
{{ $x }}
{{ 1 }
{% if %}{% endif %}
{% if yes %}
{% endif %}
{% for x in l %}
{% for in l %}{% endfor %}
{% for x l %}{% endfor %}
{% endfor %}
{% unknown %}
{% %}
{% if yes %}{% endfor %}
{% macro %}{% endmacro %}
{% set %}
{% set x %}
{# unclosed
{% raw %} unclosed
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% do l %}
{% else %}
{% if yes %}{% else %}{% else %}{% endif %}
{% if yes: %}colon{% endif %}{% for x in l: %}{{ x }}{% endfor %}
{{ '%s' | format(u) }} {{ '%5s|%-5s|' % ('é', 'é') }} {{ '{:>4}|{:é>4}|'.format('ü', 'x') }}
{{ 'a' in 'abc' and 'b' not in 'xyz' or no }} {{ 1 if no else 2 if yes else 3 }} {{ (1 if yes else 2) + 3 }} {{ yes == (not no) }} {{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ 10 - 3 - 2 }} {{ 100 / 10 / 2 }} {{ 2 * 3 % 4 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ 7 // 2 * 2 }} {{ 1.5 // 0.5 }} {{ -5 // 2.0 }} {{ 5.5 % 2 }} {{ 1e308 * 10 }} {{ 3 * -2 }}
{{ missing|upper }}| {{ missing|replace('a', 'b') }}| {{ missing|list }} {{ missing|join(',') }}| {{ missing ~ 'x' }} {{ missing is string }} {{ missing or 'dflt' }} {{ not missing }} {{ missing|string|length }} {{ [missing] }} {{ {'a': missing} }} {{ missing|e }}|
{{ missing|sort }} {{ missing|sum }} {{ missing|reverse|list }} {{ missing|unique|list }} {{ missing|last }}| {{ missing|max }}| {{ missing|batch(2)|list }} {{ missing|groupby('x') }}
{{ missing|abs }}
{{ missing|round }}
{{ -missing }}
{{ missing|dictsort }}
{{ missing|indent }}
{{ missing|float }}
{{ missing * 2 }}
{{ missing ** 2 }}
{{ l[missing] }}| {{ d[missing] }}| {{ s[:missing] if no }}
{{ s[:missing] }}
{{ s * missing }}
{% set x = missing %}{{ x is defined }}{{ x }}|{% set y = d.nope %}{{ y is undefined }}
{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'user' and not ns.found %}{% set ns.found = true %}{{ loop.index }}{% endif %}{% endfor %}{{ ns.found }}
{% for m in messages[::-1] %}{{ m.role }}{% if loop.first %}!{% endif %}{% endfor %} {% for m in messages[1:] %}{{ m['role'] }}{% endfor %} {% set messages = messages[1:] %}{{ messages|length }} {{ (messages|last)['role'] }} {{ messages[-1].role }} {{ messages[0]['content'] }}
{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ system_message }}{{ loop_messages|length }}
{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nX<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{% for m in messages %}{% if '</think>' in m.content %}{% set content = m.content.split('</think>')[-1].lstrip('\n') %}{% set r = m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}[{{ r }}][{{ content }}]{% endif %}{% endfor %}
{% macro visible(c) %}{% if c is string %}{{ c }}{% elif c is iterable and c is not mapping %}{% for i in c %}{% if i is mapping and i.type == 'text' %}{{ i.text }}{% elif i is string %}{{ i }}{% endif %}{% endfor %}{% else %}{{ c }}{% endif %}{% endmacro %}{{ visible('a') }}{{ visible([{'type': 'text', 'text': 'b'}, 'c', {'type': 'image'}]) }}{{ visible(none) }}{{ visible(5) }}
{% for tool in tools %}{{ tool | tojson }}{{ tool.function.name }}{{ tool.function.parameters.properties.keys()|list }}{% for n2, p in tool.function.parameters.properties|items %}{{ n2 }}:{{ p.type }}{% if n2 in tool.function.parameters.required %}*{% endif %} {% endfor %}{% endfor %}
'''

# Snippets of several lines, for what lines cannot hold.
BLOCKS = [
    "{% if yes %}\n  a\n{% endif %}\n\n\nb\n\n",
    "\n\n{{ s }}\n\n",
    "{{ s }}\n",
    "a\r\nb\rc\n{{ '\r\n' }}x\r\n",
    "   {% set x = 1 %}   \n   {{ x }}   \n   {# c #}   \n",
    "{% for x in l %}\n  - {{ x }}\n{% endfor %}\nend",
    "{%- for x in l -%}\n  - {{ x }}\n{%- endfor -%}\nend",
    "<div>\n    {% if yes %}\n        yes\n    {% endif %}\n</div>\n",
    "text {% if yes %}\n in line{% endif %} \n",
    "\t{%- if yes +%}\n x\n\t{%+ endif -%}\n\n y",
    "{% raw %}{% if %}{% endraw %}\n{%- raw %}\n x {% endraw +%}\n y",
    "a\n{#- b -#}\n c {#- d #}\n e",
    "{{ '{{' }} {{ '}}' }} {{ '%}' }} { { } } {% raw %}{{{% endraw %} {",
    "{{ {'a': {'b': 1}}['a']['b'] }}}} {{ '{' }}",
    "{{ {'a': {}} }}{{ {'x': {'y': {}}}}}",
    "{%\n  if\n yes\n%}multi{%\nendif %}",
    "{{ 'a' -}}\n\n  b\n{{- 'c' }}\n\n{{+ 'd' }}",
    "\u00a0{%- if yes %}x{% endif -%}\u2003y\u3000{{- s }}",
    "x\n\u2003{% if yes %}y{% endif %}\u00a0\nz",
    "{% macro m(a) -%}\n  [{{ a }}]\n{%- endmacro -%}\n{{ m(1) }}{{ m(2) }}",
    "{% set x -%}\n  spaced  \n{%- endset %}[{{ x }}]",
    "{% filter indent(2) %}\na\nb\n{% endfilter %}",
    "{# a #}{# b #}\n{# c #}\nd",
    "😀{{ u }}é{# ü #}日\n",
    "{{ 'ünï\u20ac' ~ \"\u00df\" }}",
    "{%-set x=1-%}{%-if x==1-%}one{%-endif-%}",
    "{% if yes %}{% for x in l %}{% if x > 1 %}{{ x }}{% endif %}{% endfor %}{% endif %}",
    '{{ "\\u00e9\\x41\\101\\n\\t\\\\\\\'\\"" }} {{ \'a\\\nb\' }} {{ \'\\q\\z\' }}',
    '{{ "tab\tinside" }} {{ \'line\nbreak\' }}',
    "{% set x %}block {{ n }}\n text{% endset %}[{{ x }}] {% set y | upper %}abc{{ s }}{% endset %}{{ y }} {% set z | trim | replace('a', 'b') %}  aaa {% endset %}[{{ z }}] {% set w %}{% set inside = 1 %}{% endset %}{{ inside }}|{{ x is string }}",
    '{% raw %}\n'
    ' {{ x }}\n'
    '{% endraw %}\n'
    'end',
    '{# comment #}a{#- trim -#} b {# multi\nline {{ x }} #}c {##}d {#-#} e',
    '  {% if yes %}\n'
    '    indented\n'
    '  {% endif %}\n'
    'tail',
    '  {%+ if yes %}x{%+ endif %}\ny',
    '{% if yes +%}\n'
    ' keep newline\n'
    '{% endif +%}\n'
    'z',
    'x\n'
    '   {# comment alone #}\n'
    'y\n'
    '   {#+ comment #}\n'
    'z {#- c +#}\n'
    'w',
    '{{ s -}}\n'
    '\n'
    '{{ n }}\t{%- if yes %} a{% endif %}',
    "{{ 'a'if yes else'b' }} {{1if yes else 2}} {{[1,2,3,][0]}} {{ {'a':1,}['a'] }} {{ m2 }} {{ (1) }} {{ ((1, 2)) }} {{ 1, 2 }} {{ 1, }} {{ l [0] }} {{ s . upper() }} {{ s.\nupper() }}",
    '{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n'
    '{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}\n'
    '    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith(\'<tool_response>\') and message.content.endswith(\'</tool_response>\')) %}\n'
    '        {%- set ns.multi_step_tool = false %}\n'
    '        {%- set ns.last_query_index = index %}\n'
    '    {%- endif %}\n'
    '{%- endfor %}\n'
    '{{ ns.last_query_index }}',
    "{%- for k, v in {'a': 1, 'b': 'x', 'c': [1], 'd': {'e': none}, 'f': true}.items() %}\n"
    "{{- '<arg>' + k + '</arg>' }}{{ v | tojson if v is not string else v }}{{ v if v is string else v|string }}\n"
    '{%- endfor %}',
]


def cases():
    return [(text, V) for text in [line for line in SNIPPETS.split("\n") if line] + BLOCKS]
