"""Twelve conversations that between them use what chat templates look at: (name, variables)."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather <city> & more",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "e.g. \"Zürich\""},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["city"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {"name": "search", "description": "Search", "parameters": {"type": "object", "properties": {}}},
}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, number):
    """Ids of nine characters, as Mistral wants them."""
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name, number):
    return {"role": "tool", "name": name, "tool_call_id": f"call{number:05d}", "content": content}


SYSTEM = {"role": "system", "content": "You are helpful. Today is {{ now }}."}
ASK = user("Weather in Zürich?")

CONVERSATIONS = {
    "plain": {"messages": [user("Hello, who are you?")]},
    "system": {"messages": [SYSTEM, user("  Hi!  \n")]},
    "multi_turn": {"messages": [SYSTEM, user("One"), assistant("1"), user("Two"), assistant("2\n"), user("Three")],
                   "enable_thinking": False},
    "several_systems": {"messages": [SYSTEM, user("a"), {"role": "system", "content": "Be brief."}, assistant("b"),
                                     user("c")]},
    "tools": {"messages": [SYSTEM, ASK], "tools": [WEATHER, SEARCH]},
    "tool_result": {
        "messages": [ASK, assistant("", tool_calls=[call("get_weather", {"city": "Zürich", "days": [1, 2]}, 1)]),
                     tool('{"t": 21.5}', "get_weather", 1)],
        "tools": [WEATHER],
    },
    "reasoning": {
        "messages": [user("2+2?"), assistant("4", reasoning_content="Easy: it's 2+2."), user("And 3+3?"),
                     assistant("<think>\nthree\n</think>\n\n6"), user("thanks")],
        "enable_thinking": True,
    },
    "developer": {"messages": [{"role": "developer", "content": "Rules."}, user("Hi")]},
    "unicode": {"messages": [user("日本語 😀 e\u0301 \u200b \u2028 <|im_end|> </s> [INST] {{ x }} {% y %} \\n\t\"'")]},
    "empty": {"messages": [{"role": "system", "content": ""}, user(""), assistant(""), user("x")]},
    "content_parts": {
        "messages": [user([{"type": "text", "text": "Look: "}, {"type": "text", "text": "two parts"}]),
                     assistant([{"type": "text", "text": "Yes"}]), user([{"type": "text", "text": "end"}])],
    },
    "parallel_tools": {
        "messages": [
            SYSTEM,
            ASK,
            assistant("Let me look.", tool_calls=[
                call("get_weather", '{"city": "Bern", "unit": "C", "nested": {"a": null, "b": 1.5}}', 1),
                call("search", "{}", 2),
            ]),
            tool("rain", "get_weather", 1),
            tool("nothing", "search", 2),
            assistant("It rains."),
            user("Thanks"),
        ],
        "tools": [WEATHER, SEARCH],
        "add_generation_prompt": False,
    },
}
assert len(CONVERSATIONS) == 12
