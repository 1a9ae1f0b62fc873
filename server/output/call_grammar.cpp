// See call_grammar.h. The texts are those of the families' chat templates (make_parser.cpp has the tags).
#include "server/output/call_grammar.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace slipstream::output {
namespace {

using grammar::Format;
using grammar::Tag;
using Json = nlohmann::ordered_json;

constexpr int32_t kMessages = 8;  // harmony: at most so many before the last one

/// One function, as the formats need it.
struct Function {
  std::string name;
  Json schema;
  std::string param;
  bool any_arguments = false;
};

/// How a format puts calls together: `begin` [`open` call `between` call … `close`] `end`.
struct Form {
  std::vector<Tag> tags;
  Format between = Format::literal("\n");
  bool framed = false;  // there is a tag around all calls
  Format begin = Format::literal(""), end = Format::literal("");
  std::string open, close;
  std::string trigger;  // what begins the first call in a text
};

class Builder {
 public:
  Builder(const OutputFormat& format, const Tokenizer& tokenizer) : format_(format), tokenizer_(tokenizer) {}

  Form form(const std::vector<Function>& functions) const {
    Form out;
    for (const Function& function : functions) {
      switch (format_.calls) {
        case CallFormat::kXml: out.tags.push_back(xml(function)); break;
        case CallFormat::kGlm: out.tags.push_back(glm(function)); break;
        case CallFormat::kDsml: out.tags.push_back(dsml(function)); break;
        case CallFormat::kLlama: out.tags.push_back(object(function, "parameters")); break;
        case CallFormat::kMistral: out.tags.push_back(mistral(function)); break;
        case CallFormat::kDeepSeek: out.tags.push_back(deepseek(function)); break;
        default: out.tags.push_back(hermes(function));
      }
    }
    frame(&out);
    return out;
  }

  /// The messages before an answer's last one, and that one.
  Format harmony(const std::vector<Function>& functions, CallRules rules) const {
    std::vector<Format> last;
    for (const Function& function : functions)
      last.push_back(sequence({marker("<|channel|>"), literal("commentary to=functions." + function.name + " "), marker("<|constrain|>"),
                               literal("json"), marker("<|message|>"), arguments(function)}));
    if (!rules.forced) last.push_back(sequence({marker("<|channel|>"), literal("final"), marker("<|message|>"), Format::free_text()}));
    std::vector<Format> before = {message("analysis")};
    if (!rules.forced) before.push_back(message("commentary"));
    return sequence({Format::repeat(Format::any_of(std::move(before)), 0, rules.forced ? 1 : kMessages), Format::any_of(std::move(last))});
  }

 private:
  static Format literal(std::string text) { return Format::literal(std::move(text)); }
  static Format sequence(std::vector<Format> parts) { return Format::sequence(std::move(parts)); }
  Format marker(std::string_view tag) const { return Format::marker(tokenizer_, tag); }

  Format arguments(const Function& function) const {
    return function.any_arguments ? Format::json_object() : Format::json_schema(function.schema.dump(), function.param);
  }

  Format message(const char* channel) const {
    return sequence({marker("<|channel|>"), literal(channel), marker("<|message|>"), Format::free_text(), marker("<|end|>"),
                     marker("<|start|>"), literal("assistant")});
  }

  static std::string object_head(const Function& function, const char* key) {
    return "{\"name\": " + Json(function.name).dump() + ", \"" + key + "\": ";
  }

  Tag object(const Function& function, const char* key) const {
    return {literal(object_head(function, key)), arguments(function), literal("}")};
  }

  Tag hermes(const Function& function) const {
    return {marker("<tool_call>"), sequence({literal("\n" + object_head(function, "arguments")), arguments(function), literal("}\n")}),
            marker("</tool_call>")};
  }

  Tag xml(const Function& function) const {
    const std::string head = "\n<function=" + function.name + ">\n";
    const bool none = !function.schema.contains("properties") || function.schema["properties"].empty();
    const Format value = Format::free_text({"</parameter>"});
    const Format any = Format::repeat(
        sequence({literal("<parameter="), Format::regex("[A-Za-z0-9_.-]{1,64}"), literal(">\n"), value, literal("</parameter>\n")}), 0, -1);
    Format content = literal("");
    if (function.any_arguments)
      content = any;
    else if (!none)
      content = sequence({Format::xml_parameters(function.schema.dump(), function.param), literal("\n")});
    return {marker("<tool_call>"), sequence({literal(head), std::move(content), literal("</function>\n")}), marker("</tool_call>")};
  }

  /// The arguments of a function one after another in the schema's order, those that are not required at choice; `argument` writes
  /// one from its name and its value's schema.
  template <typename Argument>
  Format in_order(const Function& function, Argument argument) const {
    std::vector<Format> parts;
    const auto properties = function.schema.find("properties");
    if (properties == function.schema.end() || !properties->is_object()) return literal("");
    const auto required = function.schema.find("required");
    for (const auto& [name, property] : properties->items()) {
      Json schema = property.is_object() ? property : Json::object();
      for (const char* definitions : {"$defs", "definitions"})
        if (function.schema.contains(definitions)) schema[definitions] = function.schema[definitions];
      Format one = argument(name, schema, function.param + ".properties." + name);
      const bool needed = required != function.schema.end() && required->is_array() && std::find(required->begin(), required->end(), name) != required->end();
      parts.push_back(needed ? std::move(one) : Format::repeat(std::move(one), 0, 1));
    }
    return sequence(std::move(parts));
  }

  /// A value as GLM and DeepSeek write it: strings as they are, everything else as JSON.
  static Format plain_value(const Json& schema, const std::string& param, const std::string& end, bool any) {
    const uint8_t kinds = any ? static_cast<uint8_t>(kAnyKind) : schema_kinds(schema, schema);
    if (any || kinds == kAnyKind) return Format::free_text({end});
    if (kinds & kString) {
      const auto values = schema.find("enum");
      if (values == schema.end() || kinds != kString) return Format::free_text({end});
      std::vector<std::string> texts;
      for (const Json& value : *values) texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      return Format::choice(texts, param);
    }
    return Format::json_schema(schema.dump(), param);
  }

  Tag glm(const Function& function) const {
    const Format content = in_order(function, [&](const std::string& name, const Json& schema, const std::string& param) {
      return sequence({marker("<arg_key>"), literal(name), marker("</arg_key>"), marker("<arg_value>"),
                       plain_value(schema, param, "</arg_value>", function.any_arguments), marker("</arg_value>")});
    });
    return {marker("<tool_call>"), sequence({literal(function.name), content}), marker("</tool_call>")};
  }

  Tag dsml(const Function& function) const {
    const Format content = in_order(function, [&](const std::string& name, const Json& schema, const std::string& param) {
      const uint8_t kinds = schema_kinds(schema, schema);
      const std::string head = "<｜DSML｜parameter name=\"" + name + "\" string=\"", end = "</｜DSML｜parameter>";
      std::vector<Format> ways;
      if (kinds & kString)
        ways.push_back(sequence({literal(head + "true\">"), plain_value(schema, param, end, function.any_arguments)}));
      if (kinds != kString)
        ways.push_back(sequence({literal(head + "false\">"), kinds & kString ? Format::free_text({end}) : plain_value(schema, param, end, function.any_arguments)}));
      return sequence({Format::any_of(std::move(ways)), literal(end + "\n")});
    });
    return {literal("<｜DSML｜invoke name=\"" + function.name + "\">\n"), content, literal("</｜DSML｜invoke>\n")};
  }

  Tag mistral(const Function& function) const {
    if (!format_.mistral_names) return object(function, "arguments");
    return {marker("[TOOL_CALLS]"), sequence({literal(function.name), marker("[ARGS]"), arguments(function)}), literal("")};
  }

  Tag deepseek(const Function& function) const {
    const std::string fence = format_.deepseek_fences ? "\n```json\n" : "";
    Format head = format_.deepseek_fences
                      ? sequence({literal("function"), marker("<｜tool▁sep｜>"), literal(function.name + fence)})
                      : sequence({literal(function.name), marker("<｜tool▁sep｜>")});
    return {marker("<｜tool▁call▁begin｜>"), sequence({std::move(head), arguments(function), literal(format_.deepseek_fences ? "\n```" : "")}),
            marker("<｜tool▁call▁end｜>")};
  }

  void frame(Form* out) const {
    switch (format_.calls) {
      case CallFormat::kDsml:
        out->framed = true;
        out->begin = literal("<｜DSML｜" + format_.dsml_section + ">\n");
        out->end = literal("</｜DSML｜" + format_.dsml_section + ">");
        out->between = literal("");
        break;
      case CallFormat::kDeepSeek:
        out->framed = true;
        out->begin = marker("<｜tool▁calls▁begin｜>");
        out->end = marker("<｜tool▁calls▁end｜>");
        out->between = literal(format_.deepseek_fences ? "\n" : "");
        break;
      case CallFormat::kMistral:
        out->framed = !format_.mistral_names;
        out->begin = marker("[TOOL_CALLS]");
        if (out->framed) out->open = "[", out->close = "]";
        out->between = literal(out->framed ? ", " : "");
        break;
      case CallFormat::kLlama: out->between = literal("; "); break;
      case CallFormat::kGlm: out->between = Format::repeat(literal("\n"), 0, 1); break;
      default: break;
    }
    out->trigger = out->framed ? out->begin.text : format_.calls == CallFormat::kLlama ? "{\"name\": " : out->tags[0].begin.text;
  }

  const OutputFormat& format_;
  const Tokenizer& tokenizer_;
};

}  // namespace

Result<Format> call_format(const OutputFormat& format, const Tokenizer& tokenizer, const Json& tools, const std::set<std::string>& strict,
                           CallRules rules) {
  if (format.calls == CallFormat::kPython || format.calls == CallFormat::kLfm || format.calls == CallFormat::kNone)
    return unsupported("calls in this model's form (" + std::string(name_of(format.calls)) + ") cannot be forced; use tool_choice auto "
                       "without strict",
                       "tool_choice");
  std::vector<Function> functions;
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json& function = tools[i]["function"];
    const std::string name = function["name"].get<std::string>();
    functions.push_back({name, function["parameters"], "tools." + std::to_string(i) + ".function.parameters",
                         rules.any_arguments && !strict.contains(name)});
  }
  const Builder builder(format, tokenizer);
  if (format.calls == CallFormat::kHarmony) return builder.harmony(functions, rules);
  Form form = builder.form(functions);
  Format calls = grammar::separated_tags(form.tags, form.between, {true, rules.single});
  std::vector<Tag> tags = std::move(form.tags);
  if (form.framed)
    tags = {Tag{form.begin, Format::sequence({Format::literal(form.open), std::move(calls), Format::literal(form.close)}), form.end}};
  if (!rules.forced) {
    const bool special = tags[0].begin.kind == Format::Kind::kToken;
    return grammar::triggered_tags(special ? std::vector<std::string>{} : std::vector<std::string>{form.trigger}, tags,
                                   {false, rules.single}, "tools");
  }
  // models put line ends behind their thoughts
  return Format::sequence({Format::repeat(Format::literal("\n"), 0, 2), form.framed ? grammar::tagged(tags[0]) : std::move(calls)});
}

}  // namespace slipstream::output
