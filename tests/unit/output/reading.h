// Text through a model family's parser, in one piece, byte by byte and in random pieces; all must read the same.
#pragma once

#include <string>
#include <vector>

#include "server/output/output_format.h"

namespace slipstream::test {

struct ReadCall {
  std::string name, arguments, id;
  bool operator==(const ReadCall& other) const { return name == other.name && arguments == other.arguments; }
};

struct Reading {
  std::string reasoning, content;
  std::vector<ReadCall> calls;
  bool in_order = true;    // fragments belong to the newest call, calls are numbered from 0
  bool done = false, ends_reasoning = false;
  bool operator==(const Reading& other) const {
    return reasoning == other.reasoning && content == other.content && calls == other.calls && done == other.done &&
           ends_reasoning == other.ends_reasoning;
  }
};

struct Setting {
  output::OutputFormat format;
  nlohmann::ordered_json tools;     // null: none
  std::string prompt_tail = {};
  bool single_call = false;
  bool skip_special = true;
  bool split_reasoning = true;
  bool continues_message = false;
};

/// A format whose `marks` are special tokens.
output::OutputFormat format_of(output::ThinkFormat think, output::CallFormat calls, std::vector<std::string> marks = {});

/// Functions of these parameters: weather(city: string, days: integer, exact: boolean, unit: string or null, ids: array, opts:
/// object, any), write(path: string, text: string), now().
nlohmann::ordered_json example_tools();

/// Reads `text` in one piece and checks that every other cut reads the same. The marks of the format in `text`, and `specials`,
/// are pushed as special tokens.
Reading read(const Setting& setting, const std::string& text, const std::vector<std::string>& specials = {});

/// The pieces that come for each byte pushed, to see what is held back: what has been shown when `text` has been read.
Reading read_unfinished(const Setting& setting, const std::string& text, const std::vector<std::string>& specials = {});

}  // namespace slipstream::test
