// Calls written as a Python list, [f(a=1, b="x"), g()]: Llama 3.2 and 4, LFM2. Nothing is evaluated.
#pragma once

#include "server/output/call_reader.h"

namespace slipstream::output {

struct PythonCallSyntax {
  std::string open, close;  // around the list; "": it stands at the very beginning of the content
};

/// Only functions that were offered count: a list in brackets is common in answers.
class PythonCalls final : public CallReader {
 public:
  PythonCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, PythonCallSyntax syntax);

 private:
  enum class State : uint8_t { kBeginning, kText, kName, kKey, kEquals, kValue, kBetween };

  bool step(std::string_view rest, bool last) override;
  void end() override;
  bool beginning(std::string_view rest, bool last);
  bool text(std::string_view rest, bool last);
  bool name(std::string_view rest, bool last);
  bool key(std::string_view rest, bool last);
  bool equals(std::string_view rest);
  bool value(std::string_view rest);
  bool between(std::string_view rest, bool last);

  bool take(std::string_view rest, size_t bytes);
  bool no_call();
  bool end_call();
  void end_value();

  const PythonCallSyntax syntax_;
  State state_;
  std::string taken_;           // until a call is certain
  std::string name_, key_, value_;
  std::string brackets_;        // open ones of the value, innermost last
  char quote_ = 0;              // of the string that the value is inside of
  bool escaped_ = false, listed_ = false;
};

}  // namespace slipstream::output
