"""Model families for the scripted stub: a chat template of our own with each family's words, its special tokens, and how such a
model writes thoughts and calls. No test logic."""

import json

TOOLS_JSON = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
# Histories: what an assistant turn holds is printed, so that tests can look at the prompt.
TURNS = """{%- for m in messages %}[{{ m.role }}]
{%- if m.reasoning_content %}(thought: {{ m.reasoning_content }}){% endif %}{{ m.content or '' }}
{%- if m.tool_calls %}{% for c in m.tool_calls %}(called {{ c.function.name }}{% for k, v in c.function.arguments | items %} {{ k }}={{ v }}{% endfor %}){% endfor %}{% endif %}
{% endfor %}"""


class Family:
    def __init__(self, name, tools="", opening="", specials=(), think=("<think>\n", "\n</think>\n\n"), call=None, between="\n"):
        self.name, self.specials, self.think, self.call, self.between = name, list(specials), think, call, between
        # `tools` are the words that tell the family apart
        self.template = TOOLS_JSON + "{% if tools %}" + tools + "{% endif %}" + TURNS + opening

    def thinking(self, thoughts):
        return self.think[0] + thoughts + self.think[1]

    def calls(self, *calls):
        """calls: (name, arguments) pairs."""
        return self.between.join(self.call(name, arguments) for name, arguments in calls)


def hermes(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def raw(value):
    return value if isinstance(value, str) else json.dumps(value)


def xml(name, arguments):
    values = "".join(f"<parameter={k}>\n{raw(v)}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def glm(name, arguments):
    values = "".join(f"<arg_key>{k}</arg_key><arg_value>{raw(v)}</arg_value>" for k, v in arguments.items())
    return f"<tool_call>{name}{values}</tool_call>"


def llama(name, arguments):
    return json.dumps({"name": name, "parameters": arguments})


def mistral(name, arguments):
    return f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}"


def deepseek(name, arguments):
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{json.dumps(arguments)}<｜tool▁call▁end｜>"


def dsml(name, arguments):
    values = "".join(f'<｜DSML｜parameter name="{k}" string="{str(isinstance(v, str)).lower()}">{raw(v)}</｜DSML｜parameter>\n'
                     for k, v in arguments.items())
    return f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="{name}">\n{values}</｜DSML｜invoke>\n</｜DSML｜function_calls>'


def harmony(name, arguments):
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"]
OPENS = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
CLOSED = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"

FAMILIES = {f.name: f for f in [
    Family("qwen3", "<tool_call>", CLOSED, call=hermes),
    # the prompt opens the thoughts, so an answer only closes them
    Family("qwen35", "<tool_call>\n<function=f>\n<parameter=p>", OPENS, think=("", "\n</think>\n\n"), call=xml),
    Family("glm", "<tool_call>f<arg_key>k</arg_key>", OPENS, think=("", "</think>"), call=glm, between=""),
    Family("llama", 'ipython {"name": n, "parameters": p}', call=llama, between="; "),
    Family("mistral", "[TOOL_CALLS]{{ '[THINK]' }}", specials=["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
           think=("[THINK]", "[/THINK]"), call=mistral, between=""),
    Family("deepseek", "<｜tool▁call▁begin｜></think>", OPENS, think=("", "</think>"),
           call=lambda n, a: "<｜tool▁calls▁begin｜>" + deepseek(n, a) + "<｜tool▁calls▁end｜>", between=""),
    Family("dsml", "DSML</think>", OPENS, think=("", "</think>"), call=dsml),
    Family("harmony", "{# <|channel|> <|message|> #}", "<|start|>assistant", specials=HARMONY,
           think=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"), call=harmony, between=""),
]}
THINKERS = [name for name in FAMILIES if name != "llama"]


def say(family, content):
    """A final answer as the family writes one behind its thoughts."""
    return "<|channel|>final<|message|>" + content if family.name == "harmony" else content


def script(*alternatives):
    """The user text that makes choice i answer alternatives[i]."""
    return "Do it.\x02" + "\x1f".join(alternatives) + "\x03"


WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"}},
    "required": ["city"]}}}
WRITE = {"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, WRITE, NOW]
