// Calls written as tags, one pair per argument: Qwen 3.5 and the coder models, GLM 4.5 and later, DeepSeek V3.2. Their values are
// plain text, which the tool's schema turns into JSON. Knows no model: the tags come with the syntax.
#pragma once

#include <set>

#include "server/output/call_reader.h"

namespace slipstream::output {

/// The tags of one format. Tags may be marks (part_sink.h).
struct TagCallSyntax {
  std::string section, section_end;  // around calls
  std::string open, open_end;        // around the name; both "": it follows `section` and ends where an argument begins
  std::string close;                 // of the call
  std::string key, key_end;          // around an argument's name
  std::string value;                 // between key_end and the value; "": nothing
  std::string value_end;
  bool typed = false;                // behind key_end stands string="true"> or string="false">
  bool padded = false;               // a line end stands on both sides of a value
  bool section_optional = false;     // `open` with a declared name begins a call, too
};

class TagCalls final : public CallReader {
 public:
  TagCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, TagCallSyntax syntax);

 private:
  enum class State : uint8_t {
    kText,
    kSection,    // behind the tag around calls
    kName,
    kFirst,      // behind the name: a call is certain only with what follows
    kArguments,  // between two arguments
    kKey,
    kValueTag,   // between key and value
    kValue,
    kBetween,    // behind a call
  };

  bool step(std::string_view rest, bool last) override;
  void end() override;
  bool text(std::string_view rest, bool last);
  bool section(std::string_view rest, bool last);
  bool name(std::string_view rest, bool last);
  bool first(std::string_view rest, bool last);
  bool arguments(std::string_view rest, bool last);
  bool key(std::string_view rest, bool last);
  bool value_tag(std::string_view rest, bool last);
  bool value(std::string_view rest, bool last);
  bool between(std::string_view rest, bool last);

  bool take(std::string_view rest, size_t bytes);
  bool no_call();
  void start();
  bool end_call();
  void begin_value(uint8_t kinds);
  /// Appends to the value; a line end at its end waits, since the last one belongs to the format.
  void give_value(std::string_view text);
  void give_text(std::string_view text);
  void end_value();

  struct ValueEnd {
    size_t at;      // so many bytes belong to the value for certain
    size_t resume;  // where reading goes on behind the value; npos: its end is not known yet
  };
  ValueEnd find_value_end(std::string_view text, bool last) const;
  /// What stands at `text`, behind blanks: another argument, or an end of the call or of the text.
  Match call_goes_on(std::string_view text, bool last) const;
  /// Whether `text`, behind the tag `key`, names an argument that the schema declares and that has not been given.
  Match names_new_argument(std::string_view text, bool last) const;

  const TagCallSyntax syntax_;
  State state_ = State::kText;
  std::string taken_;           // since the opening tag, until a call is certain
  std::string name_, key_;
  std::set<std::string, std::less<>> given_;
  uint8_t kinds_ = kAnyKind;  // of the current argument
  std::string buffered_;      // of a value whose type shows only at its end
  bool streams_ = false;      // the value is a string for certain, and its quote is open
  bool padding_ = false;      // a line end in front of the value is still to be dropped
  bool line_end_ = false;     // a line end of the value waits
  bool ignored_ = false;      // an argument given twice: the first stands
  bool unwrapped_ = false;    // the call began without its section
  bool had_call_ = false;
};

}  // namespace slipstream::output
