// A model's chat template, compiled once; renders messages to segments marked template or user text. Const and shared
// between threads. The interpreter is ours and sandboxed: no attribute access outside values, bounds on steps, depth
// and output.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/text/tokenizer.h"

namespace slipstream {

struct RenderLimits {
  int64_t steps = 2'000'000;
  int32_t depth = 200;
  int64_t output_bytes = 16 << 20;
};

struct RenderInput {
  nlohmann::ordered_json messages;      // array of objects as the client sent them, already validated
  nlohmann::ordered_json tools;         // array or null
  nlohmann::ordered_json extra;         // object: chat_template_kwargs, enable_thinking, documents, …
  bool add_generation_prompt = true;
  int64_t now_unix_seconds = 0;         // for strftime_now
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// Compile errors name line and construct.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string_view source, std::string bos_token,
                                                             std::string eos_token, RenderLimits limits = {});
  /// From the checkpoint: chat_template.jinja, tokenizer_config.json (string or named list), GGUF
  /// tokenizer.chat_template. kNotFound when the model has none.
  static Result<std::shared_ptr<const ChatTemplate>> load(const Checkpoint& checkpoint, const Tokenizer& tokenizer);

  /// raise_exception and limits are kInvalidArgument with the template's own words. String values that come from
  /// `input` are untrusted wherever they end up in the output; literals of the template are trusted. One exception: a
  /// message's role that is system, user, assistant, tool, developer or function is trusted, since templates spell
  /// control tokens with it ('<|' + role + '|>').
  virtual Result<std::vector<PromptSegment>> render(const RenderInput& input) const = 0;
  virtual const std::string& source() const = 0;
};

/// The segments' text joined: what jinja2 would print.
std::string joined_text(const std::vector<PromptSegment>& segments);

}  // namespace slipstream
