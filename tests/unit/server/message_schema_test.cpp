// Histories as clients send them, and the prompt that a template makes of them.
#include "server/api/prompt_text.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::api;

namespace {

GenerationRequest request_of(const std::string& messages) {
  INFO(messages);
  GenerationRequest out;
  REQUIRE(read_messages(Json::parse(messages), &out).ok());
  out.add_generation_prompt = false;
  return out;
}

Json message_of(const std::string& message) { return request_of("[" + message + "]").messages[0]; }

std::string param_of(const std::string& message) {
  GenerationRequest unused;
  const auto read = read_messages(Json::parse("[" + message + "]"), &unused);
  REQUIRE_FALSE(read.ok());
  return read.error().param;
}

/// An assistant turn with one call of f.
std::string call_of(const std::string& arguments, const std::string& content = "null") {
  return R"({"role":"assistant","content":)" + content +
         R"(,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":)" + arguments + "}}]}";
}

Services services_with(const std::string& source) {
  Services out;
  auto compiled = ChatTemplate::compile(source, "<s>", "</s>");
  REQUIRE(compiled.ok());
  out.chat_template = *compiled;
  output::OutputFormat format;
  format.template_shows_tools = true;  // or the server's own text would describe calls
  out.output_format = std::make_shared<const output::OutputFormat>(format);
  return out;
}

std::string rendered(const std::string& source, const std::string& messages) {
  const auto segments = render_chat(services_with(source), request_of(messages));
  if (!segments.ok()) return "error at " + segments.error().param + ": " + segments.error().message;
  return joined_text(*segments);
}

// As Qwen's coder models and GLM do: the arguments are iterated.
constexpr const char* kItems =
    "{% for m in messages %}{{ m.role }}:{% for c in m.tool_calls or [] %}{{ c.function.name }}("
    "{% for k, v in c.function.arguments|items %}{{ k }}={{ v|tojson }};{% endfor %}){% endfor %}"
    "{{ m.content if m.content is not none }}\n{% endfor %}";

}  // namespace

TEST_CASE("arguments that hold a JSON object reach the template as a mapping, in their order") {
  CHECK(rendered(kItems, "[" + call_of(R"("{\"b\": [1, 2.5], \"a\": {\"x\": null}}")") + "]") ==
        "assistant:f(b=[1, 2.5];a={\"x\": null};)\n");
  CHECK(rendered(kItems, "[" + call_of(R"({"city":"Z\u00fcrich"})") + "]") == "assistant:f(city=\"Zürich\";)\n");
  for (const char* none : {"\"\"", "\" \\n\"", "null", "{}", "\"{}\""})
    CHECK(rendered(kItems, "[" + call_of(none) + "]") == "assistant:f()\n");
  CHECK(rendered(kItems, R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])") == "assistant:f()\n");
}

TEST_CASE("arguments that hold no JSON object stay text, and are named where the template needs an object") {
  constexpr const char* prints = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor %}";
  for (const char* text : {"{broken", "[1]", "7", "{\\\"a\\\":1,\\\"a\\\":2}"}) {
    const std::string given = "\"" + std::string(text) + "\"";
    CHECK(rendered(prints, "[" + call_of(given) + "]") == Json::parse(given).get<std::string>());
    const std::string error = rendered(kItems, R"([{"role":"user","content":"q"},)" + call_of(given) + "]");
    CHECK(error.starts_with("error at messages.1.tool_calls.0.function.arguments: the arguments of a tool call are not a JSON object"));
  }
  const std::string deprecated = rendered(kItems, R"([{"role":"assistant","function_call":{"name":"f","arguments":"{broken"}}])");
  CHECK(deprecated.starts_with("error at messages.0.function_call.arguments: the arguments of a tool call"));
  // another complaint of the template stays what it is
  CHECK(rendered("{{ raise_exception('no') }}", "[" + call_of("\"{broken\"") + "]").starts_with("error at messages: "));
}

TEST_CASE("what a call may not be") {
  CHECK(param_of(call_of("7")) == "messages.0.tool_calls.0.function.arguments");
  CHECK(param_of(call_of("[1]")) == "messages.0.tool_calls.0.function.arguments");
  CHECK(param_of(R"({"role":"assistant","tool_calls":[{"function":{"name":null}}]})") == "messages.0.tool_calls.0.function.name");
  CHECK(param_of(R"({"role":"assistant","tool_calls":[{"id":"c"}]})") == "messages.0.tool_calls.0.function");
  CHECK(param_of(R"({"role":"assistant","tool_calls":[{"function":null}]})") == "messages.0.tool_calls.0.function");
  CHECK(param_of(R"({"role":"assistant","tool_calls":[7]})") == "messages.0.tool_calls.0");
  CHECK(param_of(R"({"role":"assistant","tool_calls":{}})") == "messages.0.tool_calls");
  CHECK(param_of(R"({"role":"assistant","function_call":{"arguments":"{}"}})") == "messages.0.function_call.name");
  CHECK(param_of(R"({"role":"user","content":null})") == "messages.0.content");
  CHECK(param_of(R"({"role":"user","content":"x","name":7})") == "messages.0.name");
}

TEST_CASE("a null member counts as absent") {
  const Json message = message_of(
      R"({"role":"assistant","content":"x","name":null,"tool_calls":null,"function_call":null,"refusal":null,)"
      R"("audio":null,"reasoning":null,"reasoning_content":null,"tool_call_id":null})");
  CHECK(message == Json({{"role", "assistant"}, {"content", "x"}}));
  CHECK(message_of(R"({"role":"assistant","content":"x","tool_calls":[]})") == message);
  CHECK(message_of(R"({"role":"assistant","content":null})")["content"] == "");
  const Json call = message_of(R"({"role":"assistant","tool_calls":[{"id":null,"index":null,"function":{"name":"f","arguments":null}}]})");
  CHECK(call["tool_calls"] == Json::parse(R"([{"function":{"name":"f","arguments":{}}}])"));
}

TEST_CASE("a turn with calls has null for content; a template that prints or refuses it gets an empty text") {
  const std::string turn = "[" + call_of("\"{}\"") + "]";
  CHECK(rendered("{% for m in messages %}{{ 'none' if m.content is none else 'text' }}{% endfor %}", turn) == "none");
  CHECK(rendered("{% for m in messages %}[{{ m.content }}]{% endfor %}", turn) == "[]");
  CHECK(rendered("{% for m in messages %}{{ '[' + m.content + ']' }}{% endfor %}", turn) == "[]");
  CHECK(rendered("{% for m in messages %}[{{ m.content }}]{% endfor %}", "[" + call_of("\"{}\"", "\"None\"") + "]") == "[None]");
}

TEST_CASE("function_call and the role function are read as their successors") {
  const Json call = message_of(R"({"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}})");
  CHECK(call["tool_calls"] == Json::parse(R"([{"type":"function","function":{"name":"f","arguments":{"a":1}}}])"));
  CHECK(call["content"].is_null());
  CHECK(message_of(R"({"role":"function","name":"f","content":"r"})")["role"] == "tool");
}

TEST_CASE("both spellings of the reasoning reach the template, whichever was sent") {
  for (const char* key : {"reasoning", "reasoning_content"}) {
    const Json message = message_of(R"({"role":"assistant","content":"4",")" + std::string(key) + R"(":"2+2"})");
    CHECK(message["reasoning"] == "2+2");
    CHECK(message["reasoning_content"] == "2+2");
  }
  const Json both = message_of(R"({"role":"assistant","content":"4","reasoning":"a","reasoning_content":"b"})");
  CHECK((both["reasoning"] == "a" && both["reasoning_content"] == "b"));
}
