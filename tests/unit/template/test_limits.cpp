// A template or a request can be hostile: every loop, depth and text is bounded, and the sandbox has no way out.
#include <chrono>

#include "tests/catch.h"
#include "tests/unit/template/render_case.h"

namespace slipstream {
namespace {

bool mentions(const Rendered& out, const char* words) { return out.error.find(words) != std::string::npos; }

TEST_CASE("a template that loops too long ends with the step limit") {
  RenderLimits limits;
  limits.steps = 10'000;
  const Rendered out = render_with("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", "{}",
                                   limits);
  CHECK(out.code == ErrorCode::kInvalidArgument);
  CHECK(mentions(out, "10000 steps"));
  CHECK(render_with("{% for a in range(100) %}x{% endfor %}", "{}", limits).text == std::string(100, 'x'));
}

TEST_CASE("the default limits stop hostile templates within a second", "[time]") {
  const char* hostile[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [1] * 100000000 }}",
      "{{ '%1000000000d' % 5 }}",
      "{{ '{:1000000000}'.format(5) }}",
      "{{ 'x'.center(1000000000) }}",
      "{{ 10 ** 100000 }}",
      "{{ ('a' * 1000000)|replace('', 'b' * 1000000) }}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.count('b') }}{% endfor %}",
      "{% set d = 'ä' * 500000 %}{% for i in range(100000) %}{{ d[499999] }}{% endfor %}",
      "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
      "{{ range(100000)|list|map('string')|list|join('x' * 100000) }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{{ 'x'|indent(1000000000, true) }}",
      "{{ 'a\tb'.expandtabs(1000000000000) }}",
      "{{ [1]|batch(1000000000, 'x')|list }}",
      "{{ [1]|slice(1000000000)|list }}",
  };
  for (const char* source : hostile) {
    INFO(source);
    const auto start = std::chrono::steady_clock::now();
    const Rendered out = render_with(source, "{}");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK_FALSE(out.error.empty());
    CHECK(out.code == ErrorCode::kInvalidArgument);
    CHECK(seconds.count() < 5.0);  // an idle core needs well under one; the bound leaves room for sanitizers
  }
}

TEST_CASE("output over its limit is refused") {
  RenderLimits limits;
  limits.output_bytes = 1000;
  CHECK(render_with("{% for i in range(100) %}0123456789{% endfor %}", "{}", limits).text.size() == 1000);
  CHECK(mentions(render_with("{% for i in range(101) %}0123456789{% endfor %}", "{}", limits), "1010 bytes"));
}

TEST_CASE("recursion ends with the depth limit, not with the stack") {
  CHECK(mentions(render_with("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}"), "200 deep"));
  CHECK(mentions(render_with("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "{}"), "200 deep"));
  std::string tower = "{% macro m() %}";
  for (int i = 0; i < 150; ++i) tower += "{% if true %}";
  tower += "{{ m() }}";
  for (int i = 0; i < 150; ++i) tower += "{% endif %}";
  CHECK(mentions(render_with(tower + "{% endmacro %}{{ m() }}", "{}"), "recurses"));
  CHECK(mentions(render_with("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}", "{}"), "nested"));
  CHECK(mentions(render_with("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}",
                             "{}"),
                 "nested deeper than 200"));
  CHECK(mentions(render_with("{% set n = namespace(x={}) %}{% for i in range(9999) %}"
                             "{% set n.x = {'a': n.x}.items() %}{% endfor %}",
                             "{}"),
                 "nested deeper than 200"));
  CHECK(mentions(render_with("{% set n = namespace(x=[]) %}{% for i in range(9999) %}"
                             "{% set n.x = [n.x]|map('list') %}{% endfor %}{{ n.x|list }}",
                             "{}"),
                 "nested deeper than 200"));
}

TEST_CASE("chains of macros, namespaces and loops are freed without recursion") {
  const Rendered chain = render_with(
      "{% set ns = namespace(f=none, l=none) %}{% for i in range(20000) %}{% set old = ns.f %}"
      "{% macro m() %}{{ old }}{% endmacro %}{% set ns.f = m %}"
      "{% for y in [ns.l] %}{% set ns.l = loop %}{% endfor %}{% endfor %}done",
      "{}");
  CHECK(chain.text == "done");
  const Rendered spaces = render_with(
      "{% set ns = namespace(n=none) %}{% for i in range(20000) %}{% set ns.n = namespace(p=ns.n) %}{% endfor %}ok",
      "{}");
  CHECK(spaces.text == "ok");
}

TEST_CASE("nesting in the source and in the request is bounded") {
  const std::string deep(5000, '(');
  CHECK(mentions(render_with("{{ " + deep + "1" + std::string(5000, ')') + " }}", "{}"), "nested too deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  CHECK(mentions(render_with(sum + " }}", "{}"), "nested too deeply"));
  std::string ifs;
  for (int i = 0; i < 5000; ++i) ifs += "{% if 1 %}";
  CHECK(mentions(render_with(ifs, "{}"), "nested too deeply"));
  std::string json = "1";
  for (int i = 0; i < 300; ++i) json = "[" + json + "]";
  CHECK(mentions(render_with("x", ("{\"a\": " + json + "}").c_str()), "nested deeper"));
}

TEST_CASE("the source is at most 1 MiB of valid UTF-8") {
  CHECK(render_with(std::string(1 << 20, 'x'), "{}").text.size() == 1 << 20);
  CHECK(mentions(render_with(std::string((1 << 20) + 1, 'x'), "{}"), "1048576"));
  CHECK(mentions(render_with("a\xC3", "{}"), "byte 1"));
}

// The shape of CVE-2026-5760 and its relatives: reaching Python's objects from a model file.
TEST_CASE("templates reach nothing but values") {
  const char* escapes[] = {
      "{{ ''.__class__.__mro__[1].__subclasses__() }}",
      "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
      "{{ lipsum.__globals__['os'].system('id') }}",
      "{{ self._TemplateReference__context.cycler.__init__.__globals__.os }}",
      "{{ raise_exception.__globals__.x }}",
      "{{ namespace.__init__.__globals__.x }}",
      "{{ (''|attr('__class__')).x }}",
      "{{ '{0.__class__.__mro__}'.format('') }}",
      "{{ messages.__class__.x }}",
      "{{ [].append(1) }}",
      "{{ {}.update({}) }}",
      "{% include '/etc/passwd' %}",
      "{% import 'os' as os %}{{ os }}",
      "{% extends 'x' %}",
  };
  for (const char* source : escapes) {
    INFO(source);
    CHECK_FALSE(render_with(source, "{}").error.empty());
  }
}

TEST_CASE("errors carry the template's words, or its line and the reason") {
  CHECK(render_with("{{ raise_exception('Roles must alternate') }}", "{}").error == "Roles must alternate");
  CHECK(render_with("a\nb\n{{ nope.x }}", "{}").error == "chat template, line 3: 'nope' is undefined");
  CHECK(render_with("a\n{% for x in 5 %}{% endfor %}", "{}").error ==
        "chat template, line 2: 'int' object is not iterable");
  const Rendered unknown = render_with("\n{{ x|nofilter }}", "{}");
  CHECK(unknown.error == "compile: chat template, line 2: there is no filter 'nofilter'");
  const Rendered refused = render_with("{% block x %}{% endblock %}", "{}");
  CHECK(refused.code == ErrorCode::kUnsupported);
  CHECK(mentions(refused, "'block' is not supported"));
  CHECK(render_with("{{ 'x'|pprint }}", "{}").code == ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace slipstream
