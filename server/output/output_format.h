// Which way of writing thoughts and calls the served model has: read from its chat template and vocabulary, or forced by a flag;
// and the parser for it. Knows no endpoint and no engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/api/answer_parts.h"
#include "server/output/tool_set.h"

namespace slipstream::output {

enum class ThinkFormat : uint8_t { kNone, kTags, kMistral, kHarmony };
enum class CallFormat : uint8_t { kNone, kHermes, kXml, kGlm, kLlama, kPython, kLfm, kMistral, kDeepSeek, kDsml, kHarmony };

const char* name_of(ThinkFormat format);
const char* name_of(CallFormat format);

struct OutputFormat {
  ThinkFormat think = ThinkFormat::kNone;
  CallFormat calls = CallFormat::kNone;
  std::string think_why, calls_why;  // what told
  bool template_shows_tools = false; // otherwise the server's own text describes them
  std::string dsml_section;          // DeepSeek: the tag around calls was renamed between versions
  bool deepseek_fences = false;      // DeepSeek: kind, name and fenced arguments, not name and arguments
  bool mistral_names = false;        // Mistral: name and arguments, not a list of objects
  std::vector<std::string> marks;    // tags that are special tokens of the vocabulary
};

/// `chat_template` may be null. The names are those of --reasoning-parser and --tool-call-parser, checked by the flag table;
/// "auto" reads the template.
OutputFormat find_output_format(const ChatTemplate* chat_template, const Tokenizer& tokenizer, const std::string& reasoning_parser,
                                const std::string& tool_call_parser);

struct ParserOptions {
  std::shared_ptr<const ToolSet> tools;     // null: calls are not looked for
  bool split_reasoning = true;              // false: thoughts stay in the content, with their tags
  bool single_call = false;
  bool skip_special = true;                 // special tokens that mean nothing to the format are dropped
  std::string prompt_tail;                  // the end of the rendered prompt
  bool continues_message = false;           // the tail is a message of the assistant that goes on
  std::function<std::string()> call_id;
};

/// Null when there is nothing to look for: all text is content.
std::unique_ptr<api::OutputParser> make_parser(const OutputFormat& format, const ParserOptions& options);

/// The tags around thoughts; both "" where there are none (harmony has messages instead).
struct ThinkTexts {
  std::string_view open, close;
};
ThinkTexts think_texts(const OutputFormat& format);

/// Whether the prompt has opened thoughts that it has not closed.
bool begins_inside_thoughts(const OutputFormat& format, const ParserOptions& options);

/// So much of the prompt's end is enough.
inline constexpr size_t kPromptTailBytes = 4096;

/// A call's id, new each time: "call_" and 24 letters and digits; nine where the model's template asks for that (Mistral).
std::string new_call_id(CallFormat format);

}  // namespace slipstream::output
