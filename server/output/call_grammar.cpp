// See call_grammar.h. The texts are those of the families' chat templates (make_parser.cpp has the tags).
#include "server/output/call_grammar.h"

namespace slipstream::output {
namespace {

using grammar::Format;
using grammar::Tag;
using Json = nlohmann::ordered_json;

/// One function, as the formats need it.
struct Function {
  std::string name;
  Json schema;
  std::string param;
  bool any_arguments = false;
};

/// How a format puts calls together.
struct Form {
  std::vector<Tag> tags;
  Format before = Format::literal(""), between = Format::literal("\n"), after = Format::literal("");
  std::string trigger;  // what begins a call, or all of them, in text
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
        case CallFormat::kLlama: out.tags.push_back(object(function, literal(""), "parameters", literal(""))); break;
        case CallFormat::kMistral: out.tags.push_back(mistral(function)); break;
        case CallFormat::kDeepSeek: out.tags.push_back(deepseek(function)); break;
        default: out.tags.push_back(object(function, literal("<tool_call>\n"), "arguments", literal("\n</tool_call>")));
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
    return sequence({Format::repeat(Format::any_of(std::move(before)), 0, -1), Format::any_of(std::move(last))});
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

  /// {"name": …, "arguments": …}
  Tag object(const Function& function, Format begin, const char* key, Format end) const {
    const bool tagged = begin.text.starts_with("<tool_call>");
    const Format content = sequence({literal("{\"name\": " + Json(function.name).dump() + ", \"" + key + "\": "), arguments(function), literal("}")});
    if (!tagged) return {std::move(begin), content, std::move(end)};
    return {marker("<tool_call>"), sequence({literal("\n"), content, literal("\n")}), marker("</tool_call>")};
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
    if (tokenizer_.token_id("[ARGS]") >= 0 || format_.mistral_names)
      return {marker("[TOOL_CALLS]"), sequence({literal(function.name), marker("[ARGS]"), arguments(function)}), literal("")};
    return object(function, literal(""), "arguments", literal(""));
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
        out->before = literal("<｜DSML｜" + format_.dsml_section + ">\n");
        out->after = literal("</｜DSML｜" + format_.dsml_section + ">");
        out->trigger = out->before.text;
        out->between = literal("");
        break;
      case CallFormat::kDeepSeek:
        out->before = marker("<｜tool▁calls▁begin｜>");
        out->after = marker("<｜tool▁calls▁end｜>");
        out->trigger = "<｜tool▁calls▁begin｜>";
        out->between = literal(format_.deepseek_fences ? "\n" : "");
        break;
      case CallFormat::kLlama:
        out->trigger = "{\"name\": ";
        out->between = literal("; ");
        break;
      case CallFormat::kMistral:
        out->trigger = "[TOOL_CALLS]";
        out->between = literal("");
        if (out->tags.empty() || out->tags[0].begin.kind == Format::Kind::kToken || out->tags[0].begin.text == out->trigger) break;
        out->before = sequence({marker("[TOOL_CALLS]"), literal("[")});
        out->after = literal("]");
        out->between = literal(", ");
        break;
      case CallFormat::kGlm: out->between = Format::repeat(literal("\n"), 0, 1); [[fallthrough]];
      default: out->trigger = "<tool_call>";
    }
  }

  const OutputFormat& format_;
  const Tokenizer& tokenizer_;
};

bool is_empty(const Format& format) { return format.kind == Format::Kind::kText && format.text.empty(); }

}  // namespace

Result<Format> call_format(const OutputFormat& format, const Tokenizer& tokenizer, const Json& tools, const std::vector<bool>& strict,
                           CallRules rules) {
  if (format.calls == CallFormat::kPython || format.calls == CallFormat::kLfm || format.calls == CallFormat::kNone)
    return unsupported("calls in this model's form (" + std::string(name_of(format.calls)) + ") cannot be forced; use tool_choice auto "
                       "without strict",
                       "tool_choice");
  std::vector<Function> functions;
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json& function = tools[i]["function"];
    functions.push_back({function["name"].get<std::string>(), function["parameters"],
                         "tools." + std::to_string(i) + ".function.parameters", rules.any_arguments && !(i < strict.size() && strict[i])});
  }
  const Builder builder(format, tokenizer);
  if (format.calls == CallFormat::kHarmony) return builder.harmony(functions, rules);
  Form form = builder.form(functions);
  const grammar::TagOptions options{true, rules.single};
  Format calls = grammar::separated_tags(form.tags, form.between, options);
  const bool framed = !is_empty(form.before);
  if (rules.forced) {
    // models put line ends behind their thoughts
    return Format::sequence({Format::repeat(Format::literal("\n"), 0, 2), std::move(form.before), std::move(calls), std::move(form.after)});
  }
  std::vector<Tag> tags = std::move(form.tags);
  if (framed) tags = {Tag{std::move(form.before), std::move(calls), std::move(form.after)}};
  const bool special = tags[0].begin.kind != Format::Kind::kText;
  return grammar::triggered_tags(special ? std::vector<std::string>{} : std::vector<std::string>{form.trigger}, tags,
                                 {false, rules.single}, "tools");
}

}  // namespace slipstream::output
