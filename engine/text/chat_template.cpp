// Finds a checkpoint's chat template, compiles it, and renders requests to segments. Owns the border between the
// interpreter's failures and Result; must never know HTTP.
#include "engine/text/chat_template.h"

#include <algorithm>

#include "engine/text/template_evaluator.h"
#include "engine/text/template_program.h"

namespace slipstream {

namespace {

using jinja::Value;

constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr uint64_t kMaxConfigBytes = 64 << 20;

std::string with_line(const jinja::Failure& failure) {
  return failure.line > 0 ? "chat template, line " + std::to_string(failure.line) + ": " + failure.message
                          : "chat template: " + failure.message;
}

Error render_error(const jinja::Failure& failure) {
  switch (failure.what) {
    case jinja::Failure::What::kRaised:
    case jinja::Failure::What::kLimit: return invalid_argument(failure.message, "messages");
    case jinja::Failure::What::kUnsupported: return unsupported(with_line(failure), "messages");
    case jinja::Failure::What::kError: break;
  }
  return invalid_argument(with_line(failure), "messages");
}

// The closed set of roles that the request schema admits. A template spells control tokens with them
// ('<|' + role + '|>'), and the client chooses the role in any case, so these words count as the template's own.
bool is_role(const std::string& text) {
  constexpr const char* kRoles[] = {"system", "user", "assistant", "tool", "developer", "function"};
  return std::any_of(std::begin(kRoles), std::end(kRoles), [&](const char* role) { return text == role; });
}

Value convert_messages(const nlohmann::ordered_json& messages, const jinja::Meter& meter) {
  if (!messages.is_array()) return jinja::from_json(messages, true, meter);
  std::vector<Value> items;
  for (const auto& message : messages) {
    if (!message.is_object()) {
      items.push_back(jinja::from_json(message, true, meter));
      continue;
    }
    auto dict = std::make_shared<jinja::DictObject>();
    for (const auto& [key, field] : message.items()) {
      const bool role = key == "role" && field.is_string() && is_role(field.get_ref<const std::string&>());
      if (first_invalid_utf8(key) != std::string::npos) jinja::fail("a key of the request is not valid UTF-8");
      dict->set(Value::string(jinja::Text(key, true)), jinja::from_json(field, !role, meter, 2), meter);
    }
    items.push_back(Value::dict(std::move(dict)));
  }
  return Value::list(std::move(items), meter);
}

class CompiledTemplate : public ChatTemplate {
 public:
  CompiledTemplate(std::string source, jinja::Program program, std::string bos, std::string eos, RenderLimits limits)
      : source_(std::move(source)),
        program_(std::move(program)),
        bos_(std::move(bos)),
        eos_(std::move(eos)),
        limits_(limits) {}

  Result<std::vector<PromptSegment>> render(const RenderInput& input) const override {
    try {
      return to_segments(run(input));
    } catch (const jinja::Failure& failure) {
      return render_error(failure);
    }
  }

  const std::string& source() const override { return source_; }

 private:
  jinja::Text run(const RenderInput& input) const {
    const jinja::Meter meter(limits_.steps, limits_.output_bytes, limits_.depth);
    jinja::Evaluator evaluator(program_, meter, input.now_unix_seconds);
    // As transformers names them. The request's own variables may replace the tokens, never the conversation.
    if (!bos_.empty()) evaluator.set_variable("bos_token", Value::literal(bos_));
    if (!eos_.empty()) evaluator.set_variable("eos_token", Value::literal(eos_));
    evaluator.set_variable("documents", Value::none());
    if (input.extra.is_object())
      for (const auto& [name, value] : input.extra.items())
        evaluator.set_variable(name, jinja::from_json(value, true, meter));
    evaluator.set_variable("messages", convert_messages(input.messages, meter));
    evaluator.set_variable("tools", jinja::from_json(input.tools, true, meter));
    evaluator.set_variable("add_generation_prompt", Value::boolean(input.add_generation_prompt));
    return evaluator.run();
  }

  static std::vector<PromptSegment> to_segments(const jinja::Text& text) {
    std::vector<PromptSegment> segments;
    size_t from = 0;
    for (const jinja::Run& run : text.runs()) {
      segments.push_back({text.bytes().substr(from, run.end - from), !run.user});
      from = run.end;
    }
    return segments;
  }

  std::string source_;
  jinja::Program program_;
  std::string bos_;
  std::string eos_;
  RenderLimits limits_;
};

// The text of "chat_template" in tokenizer_config.json: one string, or a list of named ones.
Result<std::string> template_of_config(const std::string& text) {
  const auto config = nlohmann::json::parse(text, nullptr, false);
  if (config.is_discarded() || !config.is_object())
    return corrupt("tokenizer_config.json is not a JSON object; download the file again");
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return not_found("tokenizer_config.json has no chat_template");
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return corrupt("chat_template in tokenizer_config.json is neither a string nor a list");
  std::string first;
  for (const auto& entry : *found) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") || !entry["name"].is_string() ||
        !entry["template"].is_string())
      return corrupt("an entry of chat_template in tokenizer_config.json lacks its name or template");
    if (entry["name"] == "default") return entry["template"].get<std::string>();
    if (first.empty()) first = entry["template"].get<std::string>();
  }
  if (first.empty()) return not_found("the list chat_template in tokenizer_config.json is empty");
  return first;
}

Result<std::string> find_source(const Checkpoint& checkpoint) {
  if (checkpoint.kind() == CheckpointKind::kGguf) {
    const auto found = checkpoint.metadata().find("tokenizer.chat_template");
    if (found == checkpoint.metadata().end()) return not_found("the GGUF has no key tokenizer.chat_template");
    if (!std::holds_alternative<std::string>(found->second))
      return corrupt("the GGUF key tokenizer.chat_template is not a string");
    return std::get<std::string>(found->second);
  }
  auto file = checkpoint.read_side_file("chat_template.jinja", kMaxTemplateBytes);
  if (file.ok() || file.error().code != ErrorCode::kNotFound) return file;
  auto config = checkpoint.read_side_file("tokenizer_config.json", kMaxConfigBytes);
  if (!config.ok()) return std::move(config).error();
  return template_of_config(*config);
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source, std::string bos_token,
                                                                  std::string eos_token, RenderLimits limits) {
  if (source.size() > kMaxTemplateBytes)
    return invalid_argument("the chat template has " + std::to_string(source.size()) + " bytes; the limit is " +
                            std::to_string(kMaxTemplateBytes));
  if (const size_t at = first_invalid_utf8(source); at != std::string::npos)
    return invalid_argument("the chat template is not valid UTF-8 at byte " + std::to_string(at));
  try {
    return std::shared_ptr<const ChatTemplate>(std::make_shared<CompiledTemplate>(
        std::string(source), jinja::parse(source), std::move(bos_token), std::move(eos_token), limits));
  } catch (const jinja::Failure& failure) {
    return failure.what == jinja::Failure::What::kUnsupported ? unsupported(with_line(failure))
                                                              : invalid_argument(with_line(failure));
  }
}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::load(const Checkpoint& checkpoint,
                                                               const Tokenizer& tokenizer) {
  auto source = find_source(checkpoint);
  if (!source.ok()) {
    if (source.error().code != ErrorCode::kNotFound) return std::move(source).error();
    return not_found("the model has no chat template (" + source.error().message +
                     "); use the completions endpoint or give one with --chat-template");
  }
  const auto text_of = [&](int32_t id) {
    return id < 0 ? std::string() : std::string(tokenizer.token_bytes(id));
  };
  const std::vector<int32_t> ends = tokenizer.eos_ids();
  return compile(*source, text_of(tokenizer.bos_id()), text_of(ends.empty() ? -1 : ends.front()));
}

std::string joined_text(const std::vector<PromptSegment>& segments) {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace slipstream
