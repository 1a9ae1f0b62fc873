"""Templates of our own with the layout and the constructs of families whose files we do not have: Qwen3.6 and 3.8, and
GLM-5. They are not the models' templates; they use the same parts of the language in the same places."""

QWEN = r'''
{%- macro parts(content, where) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if part is mapping and part.type == 'text' %}
                {{- part.text }}
            {%- elif part is string %}
                {{- part }}
            {%- else %}
                {{- raise_exception('Unexpected part in ' ~ where ~ '.') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('Unexpected content type.') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}
    {{- raise_exception('No messages.') }}
{%- endif %}
{%- set effort = reasoning_effort | default('xhigh') %}
{%- if effort not in ['xhigh', 'medium', 'low'] %}
    {{- raise_exception('Unknown reasoning effort: ' ~ effort) }}
{%- endif %}
{%- set head = namespace(text='') %}
{%- if effort == 'low' %}{% set head.text = 'Think briefly.' %}{% elif effort == 'xhigh' %}{% set head.text = 'Think long.' %}{% endif %}
{%- if messages[0].role in ['system', 'developer'] %}
    {%- set first = parts(messages[0].content, 'system') | trim %}
    {%- set head.text = (head.text ~ '\n\n' ~ first) | trim %}
{%- endif %}
{%- if tools %}
    {{- '<|im_start|>system\n# Tools\n\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' ~ (tool | tojson) }}
    {%- endfor %}
    {{- '\n</tools>' ~ ('\n\n' ~ head.text if head.text else '') ~ '<|im_end|>\n' }}
{%- elif head.text %}
    {{- '<|im_start|>system\n' + head.text + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(looking=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.looking and message.role == 'user' %}
        {%- set text = parts(message.content, 'user') | trim %}
        {%- if not (text.startswith('<tool_response>') and text.endswith('</tool_response>')) %}
            {%- set ns.looking = false %}
            {%- set ns.last_query = index %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if ns.looking %}
    {{- raise_exception('No user query.') }}
{%- endif %}
{%- for message in messages %}
    {%- set content = parts(message.content, message.role) | trim %}
    {%- if message.role in ['system', 'developer'] %}
        {%- if not loop.first %}
            {{- raise_exception('System message must be first.') }}
        {%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\n' + content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' }}
        {%- if loop.index0 > ns.last_query or preserve_thinking is defined and preserve_thinking is true %}
            {{- '<think>\n' + reasoning.strip() + '\n</think>\n\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function is defined %}{% set call = call.function %}{% endif %}
            {{- ('\n\n' if loop.first and content else '\n' if not loop.first else '') ~ '<tool_call>\n<function=' ~ call.name ~ '>\n' }}
            {%- if call.arguments is mapping %}
                {%- for name, value in call.arguments | items %}
                    {{- '<parameter=' ~ name ~ '>\n' }}
                    {{- value | tojson if value is mapping or value is sequence and value is not string else value | string }}
                    {{- '\n</parameter>\n' }}
                {%- endfor %}
            {%- endif %}
            {{- '</function>\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem is undefined or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ content ~ '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('Unexpected role: ' ~ message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {{- '<think>\n\n</think>\n\n' if enable_thinking is defined and enable_thinking is false else '<think>\n' }}
{%- endif %}
'''

GLM = r'''[gMASK]<sop>
{%- macro visible(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item is mapping and item.type == 'text' -%}{{ item.text }}
            {%- elif item is string -%}{{ item }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}{{ content }}
    {%- endif -%}
{%- endmacro -%}
{%- if reasoning_effort is defined -%}
<|system|>Reasoning Effort: {{ 'High' if reasoning_effort == 'high' else 'Max' }}
{%- endif -%}
{%- if tools -%}
<|system|>
# Tools

<tools>
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
</tools>
{%- endif -%}
{%- set ns = namespace(last_user=-1) -%}
{%- for m in messages -%}
    {%- if m.role == 'user' %}{% set ns.last_user = loop.index0 %}{% endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}<|user|>{{ visible(m.content) }}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set reasoning = '' -%}
{%- set content = visible(m.content) -%}
{%- if m.reasoning_content is string -%}
    {%- set reasoning = m.reasoning_content -%}
{%- elif '</think>' in content -%}
    {%- set reasoning = content.split('</think>')[0].split('<think>')[-1] -%}
    {%- set content = content.split('</think>')[-1] -%}
{%- endif -%}
{%- if ((clear_thinking is defined and not clear_thinking) or loop.index0 > ns.last_user) and reasoning -%}
{{ '<think>' + reasoning.strip() + '</think>' }}
{%- else -%}
{{ '</think>' }}
{%- endif -%}
{%- if content.strip() -%}
{{ content.strip() }}
{%- endif -%}
{%- for tc in m.tool_calls or [] -%}
    {%- set f = tc.function if tc.function else tc -%}
{{ '<tool_call>' + f.name }}
    {%- set _args = f.arguments -%}
    {%- if _args is string -%}{{ raise_exception('Arguments must be an object: ' + _args | string) }}{%- endif -%}
    {%- for k, v in _args.items() -%}
<arg_key>{{ k }}</arg_key><arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
    {%- endfor -%}
</tool_call>
{%- endfor -%}
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}<|observation|>{%- endif -%}
<tool_response>{{ visible(m.content) }}</tool_response>
{%- elif m.role == 'system' -%}<|system|>{{ visible(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|assistant|>{{ '</think>' if (enable_thinking is defined and not enable_thinking) else '<think>' }}
{%- endif -%}
'''

SWITCHES = [
    {},
    {"enable_thinking": False},
    {"preserve_thinking": True, "clear_thinking": False},
    {"reasoning_effort": "low"},
    {"reasoning_effort": "medium", "enable_thinking": True},
    {"reasoning_effort": "high"},
]
