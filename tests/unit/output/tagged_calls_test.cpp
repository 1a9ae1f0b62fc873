// Calls written as tags. Texts are what the chat templates of Qwen 3.5, Qwen3-Coder, GLM 4.6 and 4.7 and DeepSeek V3.2 make of a
// call.
#include "tests/catch.h"
#include "tests/unit/output/reading.h"

using namespace slipstream;
using namespace slipstream::test;
using nlohmann::json;
using output::CallFormat;
using output::ThinkFormat;

namespace {

Setting of(CallFormat format, std::vector<std::string> marks = {}) {
  return {format_of(ThinkFormat::kNone, format, std::move(marks)), example_tools(), ""};
}
const Setting& xml() {
  static const Setting setting = of(CallFormat::kXml);
  return setting;
}

std::string xml_call(const std::string& name, const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string out = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments) out += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  return out + "</function>\n</tool_call>";
}

std::string glm_call(const std::string& name, const std::vector<std::pair<std::string, std::string>>& arguments, const char* gap) {
  std::string out = "<tool_call>" + name;
  for (const auto& [key, value] : arguments) out += gap + ("<arg_key>" + key + "</arg_key>") + gap + "<arg_value>" + value + "</arg_value>";
  return out + gap + "</tool_call>";
}

const std::vector<ReadCall> kTwo = {{"weather", R"({"city": "Paris", "days": 2})", ""}, {"now", "{}", ""}};

}  // namespace

TEST_CASE("Qwen 3.5: calls, with text before them") {
  const Reading r = read(xml(), "Let me look.\n\n" + xml_call("weather", {{"city", "Paris"}, {"days", "2"}}) + "\n" + xml_call("now", {}));
  CHECK(r.content == "Let me look.");
  CHECK(r.calls == kTwo);
}

TEST_CASE("Qwen 3.5: values become what the schema says") {
  const auto value = [](const std::string& key, const std::string& text) {
    const Reading r = read(xml(), xml_call("weather", {{key, text}}));
    REQUIRE(r.calls.size() == 1);
    return json::parse(r.calls[0].arguments)[key];
  };
  CHECK(value("city", "null") == "null");
  CHECK(value("city", "42") == "42");
  CHECK(value("city", " a \"b\"\n\nc\\ ") == " a \"b\"\n\nc\\ ");
  CHECK(value("days", "42") == 42);
  CHECK(value("days", "soon") == "soon");
  CHECK(value("days", "1.5") == "1.5");
  CHECK(value("share", "1.5") == 1.5);
  CHECK(value("share", "-2e3") == -2000.0);
  CHECK(value("exact", "True") == true);
  CHECK(value("exact", "false") == false);
  CHECK(value("exact", "yes") == "yes");
  CHECK(value("unit", "null") == nullptr);
  CHECK(value("unit", "None") == nullptr);
  CHECK(value("unit", "nullable") == "nullable");
  CHECK(value("unit", "C") == "C");
  CHECK(value("ids", "[1, 2]") == json::parse("[1, 2]"));
  CHECK(value("ids", "(1, 2)") == "(1, 2)");
  CHECK(value("opts", R"({"a": [true, null]})") == json::parse(R"({"a": [true, null]})"));
  CHECK(value("opts", "{'a': [True, None], 'b': \"it's\"}") == json::parse(R"({"a": [true, null], "b": "it's"})"));
  CHECK(value("opts", "{broken") == "{broken");
  CHECK(value("any", "7") == 7);
  CHECK(value("any", "seven") == "seven");
  CHECK(value("unheard_of", "[1]") == json::parse("[1]"));
}

TEST_CASE("Qwen 3.5: values of several lines and empty ones") {
  const Reading r = read(xml(), xml_call("write", {{"path", ""}, {"text", "\nfirst\n\nlast\n"}}));
  REQUIRE(r.calls.size() == 1);
  CHECK(json::parse(r.calls[0].arguments) == json::parse(R"({"path": "", "text": "\nfirst\n\nlast\n"})"));
}

TEST_CASE("Qwen 3.5: a value that holds the format's own tags") {
  const std::string page = "<parameter=x>\n</parameter> and </function> or </tool_call>, <tool_call> too";
  const Reading r = read(xml(), xml_call("write", {{"text", page}, {"path", "a"}}) + "\nDone.");
  REQUIRE(r.calls.size() == 1);
  CHECK(json::parse(r.calls[0].arguments)["text"] == page);
  CHECK(json::parse(r.calls[0].arguments)["path"] == "a");
  CHECK(r.content == "Done.");
}

TEST_CASE("Qwen 3.5: forgotten tags") {
  const auto calls = [](const std::string& text) { return read(xml(), text).calls; };
  CHECK(calls("<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>") ==
        std::vector<ReadCall>{kTwo[0]});
  CHECK(calls("<tool_call>\n<function=weather>\n<parameter=city>\nParis\n<parameter=days>\n2\n</function>\n</tool_call>") ==
        std::vector<ReadCall>{kTwo[0]});
  CHECK(calls("<tool_call>\n<function=weather>\n<parameter=city>Paris</parameter><parameter=days>2</parameter></function></tool_call>") ==
        std::vector<ReadCall>{kTwo[0]});
  CHECK(calls("<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n</tool_call>\n" +
              xml_call("now", {})) == kTwo);
  CHECK(calls(xml_call("now", {}).substr(0, 34)) == std::vector<ReadCall>{{"now", "", ""}});  // cut off inside the closing tag
}

TEST_CASE("Qwen 3.5: an argument that is given twice counts once") {
  const Reading r = read(xml(), xml_call("weather", {{"city", "Paris"}, {"city", "Rome"}, {"days", "2"}}));
  CHECK(r.calls == std::vector<ReadCall>{kTwo[0]});
}

TEST_CASE("Qwen 3.5: prose about calls is prose, at once") {
  const std::string prose = "A <tool_call> holds <function=name>, then <parameter=k>.\n<function=weather> is one, <function= another.";
  const Reading r = read(xml(), prose);
  CHECK(r.content == prose);
  CHECK(r.calls.empty());
  CHECK(read_unfinished(xml(), "A <tool_call> h").content == "A <tool_call> h");
  CHECK(read_unfinished(xml(), "A <tool_call>\n<function=weather>\n i").content == "A <tool_call>\n<function=weather>\n i");
}

TEST_CASE("Qwen 3.5: strings stream as they come, other values when they are whole") {
  const std::string head = "<tool_call>\n<function=weather>\n";
  CHECK(read_unfinished(xml(), head).calls.empty());
  CHECK(read_unfinished(xml(), head + "<parameter=").calls.size() == 1);
  CHECK(read_unfinished(xml(), head + "<parameter=city>\nPar").calls[0].arguments == R"({"city": "Par)");
  CHECK(read_unfinished(xml(), head + "<parameter=city>\nPar</param").calls[0].arguments == R"({"city": "Par)");
  CHECK(read_unfinished(xml(), head + "<parameter=city>\nPar</parx").calls[0].arguments == R"({"city": "Par</parx)");
  CHECK(read_unfinished(xml(), head + "<parameter=unit>\nnul").calls[0].arguments == R"({"unit": )");
  CHECK(read_unfinished(xml(), head + "<parameter=unit>\nnux").calls[0].arguments == R"({"unit": "nux)");
  CHECK(read_unfinished(xml(), head + "<parameter=days>\n2").calls[0].arguments == R"({"days": )");
}

TEST_CASE("Qwen 3.5: cut off") {
  const std::string head = "<tool_call>\n<function=weather>\n";
  CHECK(read(xml(), head).calls == std::vector<ReadCall>{{"weather", "", ""}});
  CHECK(read(xml(), head + "<parameter=city>\nPar").calls[0].arguments == R"({"city": "Par)");
  CHECK(read(xml(), head + "<parameter=city>\nPar\n</para").calls[0].arguments == R"({"city": "Par)");
  CHECK(read(xml(), "<tool_call>\n<functi").content == "<tool_call>\n<functi");
}

TEST_CASE("Qwen 3.5: only one call") {
  Setting setting = of(CallFormat::kXml);
  setting.single_call = true;
  const Reading r = read(setting, xml_call("now", {}) + "\n" + xml_call("weather", {}) + "\nrest");
  CHECK(r.calls == std::vector<ReadCall>{kTwo[1]});
  CHECK(r.content.empty());
  CHECK(r.done);
}

TEST_CASE("GLM: calls as 4.5 and as 4.7 write them") {
  for (const char* gap : {"\n", ""}) {
    for (const std::vector<std::string>& marks :
         {std::vector<std::string>{}, {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}}) {
      const Reading r = read(of(CallFormat::kGlm, marks),
                             "Let me look.\n" + glm_call("weather", {{"city", "Paris"}, {"days", "2"}}, gap) + "\n" + glm_call("now", {}, gap));
      CHECK(r.content == "Let me look.");
      CHECK(r.calls == kTwo);
    }
  }
}

TEST_CASE("GLM: strings keep their line ends, tags in values stay, prose stays prose") {
  const std::string page = "\n<arg_key>a</arg_key>\n</arg_value> b </tool_call> c\n";
  const Reading r = read(of(CallFormat::kGlm), glm_call("write", {{"text", page}, {"path", "a"}}, "\n"));
  REQUIRE(r.calls.size() == 1);
  CHECK(json::parse(r.calls[0].arguments)["text"] == page);
  CHECK(json::parse(r.calls[0].arguments)["path"] == "a");
  const std::string prose = "Use <tool_call>name here</tool_call> or <tool_call> so.";
  CHECK(read(of(CallFormat::kGlm), prose).content == prose);
  CHECK(read_unfinished(of(CallFormat::kGlm), "Use <tool_call>name h").content == "Use <tool_call>name h");
}

TEST_CASE("GLM: cut off inside a string") {
  const Reading r = read(of(CallFormat::kGlm), "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Par");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == R"({"city": "Par)");
}

TEST_CASE("DeepSeek V3.2: typed parameters") {
  const std::string text =
      "Let me look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n"
      "<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
      "<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
  const Reading r = read(of(CallFormat::kDsml), text);
  CHECK(r.content == "Let me look.");
  CHECK(r.calls == kTwo);
}
