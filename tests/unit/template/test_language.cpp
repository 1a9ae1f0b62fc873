// The language itself, for builds without Python: a few of the constructs that tests/templates compares with jinja2.
#include "tests/catch.h"
#include "tests/unit/template/render_case.h"

namespace slipstream {
namespace {

TEST_CASE("whitespace control follows trim_blocks and lstrip_blocks") {
  CHECK(render_with("  {% if true %}\n a\n  {% endif %}\nb\n", "{}").text == " a\nb");
  CHECK(render_with("x {%- if true -%} y {%- endif %} z", "{}").text == "xy z");
  CHECK(render_with("  {%+ if true +%}\na{% endif %}", "{}").text == "  \na");
  CHECK(render_with("a\n  {# c #}\nb {{- 'c' -}} d", "{}").text == "a\nbcd");
  CHECK(render_with("{% raw %}{{ x }}{% endraw %}\ny", "{}").text == "{{ x }}y");
}

TEST_CASE("values print as Python prints them") {
  CHECK(render_with("{{ [none, true, 1.0, 1e16, 'it\\'s', {'k': (1,)}] }}", "{}").text ==
        "[None, True, 1.0, 1e+16, \"it's\", {'k': (1,)}]");
  CHECK(render_with("{{ v }}", R"({"v": {"a": [1, null, false], "ü": "😀\n"}})").text ==
        "{'a': [1, None, False], 'ü': '😀\\n'}");
  CHECK(render_with("{{ 9223372036854775807 * 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }}", "{}").text ==
        "27670116110564327421 -4 2 3.5");
}

TEST_CASE("tojson has Python's spacing, key order and escapes") {
  const char* variables = R"({"v": {"b": 1, "a": ["ü", "<&>", "\u0001\"", 1.5, null]}})";
  CHECK(render_with("{{ v|tojson }}", variables).text ==
        "{\"b\": 1, \"a\": [\"ü\", \"<&>\", \"\\u0001\\\"\", 1.5, null]}");
  CHECK(render_with("{{ v|tojson(indent=1, sort_keys=true, ensure_ascii=true) }}", variables).text ==
        "{\n \"a\": [\n  \"\\u00fc\",\n  \"<&>\",\n  \"\\u0001\\\"\",\n  1.5,\n  null\n ],\n \"b\": 1\n}");
}

TEST_CASE("variables of a loop end with the pass; a namespace outlives it") {
  CHECK(render_with("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{% endfor %}{{ x }}", "{}").text ==
        "111");
  CHECK(render_with("{% set n = namespace(c=0) %}{% for i in [1, 2] %}{% set n.c = n.c + i %}{% endfor %}{{ n.c }}",
                    "{}")
            .text == "3");
  CHECK(render_with("{% for i in 'abc' %}{{ loop.index }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.last }} "
                    "{% endfor %}",
                    "{}")
            .text == "1bFalse 2acFalse 3bTrue ");
}

TEST_CASE("undefined prints nothing, tests as false and raises when used further") {
  CHECK(render_with("[{{ x }}{{ x is defined }}{{ x or 'd' }}{{ {}.a }}]", "{}").text == "[Falsed]");
  CHECK(render_with("{{ x.y }}", "{}").error == "chat template, line 1: 'x' is undefined");
  CHECK(render_with("{{ d.a.b }}", R"({"d": {}})").error ==
        "chat template, line 1: 'dict object' has no attribute 'a'");
}

TEST_CASE("the request's variables are there under transformers' names") {
  RenderInput input;
  input.messages = Json::parse(R"([{"role": "user", "content": "x"}])");
  input.extra = Json::parse(R"({"enable_thinking": false})");
  input.add_generation_prompt = false;
  const std::string source =
      "{{ bos_token }}{{ eos_token }}{{ messages|length }}{{ tools is none }}{{ documents is none }}"
      "{{ add_generation_prompt }}{{ enable_thinking }}";
  CHECK(render_case(source, input).text == "<s></s>1TrueTrueFalseFalse");
  input.now_unix_seconds = 86'400 * 180 + 43'200;  // noon, so that every usual zone agrees on the date
  CHECK(render_case("{{ strftime_now('%d %b %Y') }}", input).text == "30 Jun 1970");
}

TEST_CASE("one compiled template renders many times, each on its own") {
  const auto compiled = ChatTemplate::compile("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ x }}", "", "");
  REQUIRE(compiled.ok());
  RenderInput input;
  for (int i = 0; i < 3; ++i) {
    input.extra = {{"x", i}};
    CHECK(joined_text(*(*compiled)->render(input)) == "a" + std::to_string(i));
  }
  CHECK((*compiled)->source().substr(0, 5) == "{% se");
}

}  // namespace
}  // namespace slipstream
