// Calls written as JSON: an object with name and arguments (Hermes, Qwen 2.5 and 3, Llama 3, the older Mistral form), or a name,
// a separator and the arguments (Mistral, DeepSeek V3 and R1). Knows no model: the tags come with the syntax.
#pragma once

#include "server/output/call_reader.h"
#include "server/output/json_scanner.h"

namespace slipstream::output {

/// The tags of one format; an empty one is not used. Tags may be marks (part_sink.h).
struct JsonCallSyntax {
  std::string open;              // before a call
  std::string close;             // after it
  std::string section, section_end;  // around all calls
  std::string separator;         // between name and arguments
  std::string id_tag;            // before an id that the model made up
  bool object = false;           // {"name": …, "arguments": …}
  bool named = false;            // name, separator, arguments
  bool bare = false;             // an object at the very beginning of the content is a call, too
  bool declared_only = false;    // an object with another name is no call
};

class JsonCalls final : public CallReader {
 public:
  JsonCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, JsonCallSyntax syntax);

 private:
  enum class State : uint8_t {
    kBeginning,  // of the content, where a call without a tag may stand
    kText,
    kSection,    // behind the tag around all calls
    kOpen,       // behind a call's tag
    kHeader,     // name, separator, id
    kArguments,  // behind them
    kKey,        // inside the object …
    kColon,
    kValue,
    kAfterValue,
    kBetween,    // behind a call: its closing tag, another call, or text
  };

  bool step(std::string_view rest, bool last) override;
  void end() override;
  bool beginning(std::string_view rest, bool last);
  bool text(std::string_view rest, bool last);
  bool section(std::string_view rest, bool last);
  bool open(std::string_view rest);
  bool header(std::string_view rest, bool last);
  bool header_name(std::string_view rest, bool last);
  bool arguments(std::string_view rest);
  bool key(std::string_view rest);
  bool colon(std::string_view rest);
  bool value(std::string_view rest);
  bool after_value(std::string_view rest);
  bool between(std::string_view rest, bool last);

  /// Consumes bytes that are released should this be no call.
  bool take(std::string_view rest, size_t bytes);
  /// What was taken is text; or, where the call had begun, it ends with what there is.
  bool break_off();
  bool begin_object(std::string_view rest);
  bool value_read();
  void give_arguments();
  bool name_allowed(std::string_view name) const;
  void start(std::string_view name);
  bool end_call();

  const JsonCallSyntax syntax_;
  State state_;
  std::string taken_;             // since the opening tag, until a call is certain
  std::string key_, value_;       // of the object
  std::string name_, arguments_;  // before the call is certain
  JsonScanner scanner_;
  bool started_ = false, had_call_ = false;
  bool separated_ = false, id_next_ = false;  // in the header
};

}  // namespace slipstream::output
