// See python_calls.h.
#include "server/output/python_calls.h"

#include "server/json_text.h"
#include "server/output/value_text.h"

namespace slipstream::output {

PythonCalls::PythonCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, PythonCallSyntax syntax)
    : CallReader(sink, std::move(tools)), syntax_(std::move(syntax)), state_(syntax_.open.empty() ? State::kBeginning : State::kText) {}

bool PythonCalls::step(std::string_view rest, bool last) {
  switch (state_) {
    case State::kBeginning: return beginning(rest, last);
    case State::kText: return text(rest, last);
    case State::kName: return name(rest, last);
    case State::kKey: return key(rest, last);
    case State::kEquals: return equals(rest);
    case State::kValue: return value(rest);
    case State::kBetween: return between(rest, last);
  }
  return false;
}

void PythonCalls::end() {
  if (state_ != State::kBetween) sink_->plain(taken_);  // between calls it holds separators only
  taken_.clear();
}

bool PythonCalls::take(std::string_view rest, size_t bytes) {
  taken_ += rest.substr(0, bytes);
  consume(bytes);
  return true;
}

bool PythonCalls::no_call() {
  sink_->plain(taken_);
  taken_.clear();
  state_ = State::kText;
  return true;
}

bool PythonCalls::beginning(std::string_view rest, bool) {
  if (is_space(rest[0])) return take(rest, 1);
  // thoughts hold lists that are meant for nobody
  if (rest[0] != '[' || sink_->mode() != api::PartKind::kContent) return no_call();
  listed_ = true;
  name_.clear();
  state_ = State::kName;
  return take(rest, 1);
}

bool PythonCalls::text(std::string_view rest, bool last) {
  const TagSearch found = find_tag(rest, std::span(&syntax_.open, 1), last);
  if (found.at > 0) {
    release(found.at);
    return true;
  }
  if (found.tag < 0) return false;
  listed_ = false;
  name_.clear();
  state_ = State::kName;
  return take(rest, syntax_.open.size());
}

bool PythonCalls::name(std::string_view rest, bool last) {
  if (taken_.size() > 2 * kLongestName) return no_call();
  if (name_.empty()) {
    if (is_space(rest[0])) return take(rest, 1);
    if (rest[0] == '[' && !listed_) {
      listed_ = true;
      return take(rest, 1);
    }
    bool too_long = false;
    const size_t length = leading_name(rest, last, &too_long);
    if (too_long || length == 0) return no_call();
    if (length == std::string_view::npos) return false;
    name_ = rest.substr(0, length);
    return take(rest, length);
  }
  if (rest[0] != '(' || !tools_->has(name_)) return no_call();
  consume(1);
  taken_.clear();
  sink_->start_call(name_);
  key_.clear();
  state_ = State::kKey;
  return true;
}

bool PythonCalls::end_call() {
  if (sink_->has_arguments()) sink_->arguments("}");
  sink_->end_call();
  state_ = State::kBetween;
  return true;
}

bool PythonCalls::key(std::string_view rest, bool last) {
  if (is_space(rest[0]) || rest[0] == ',') {
    consume(1);
    return true;
  }
  if (rest[0] == ')') {
    consume(1);
    return end_call();
  }
  bool too_long = false;
  const size_t length = leading_name(rest, last, &too_long);
  if (too_long || length == 0) return end_call();
  if (length == std::string_view::npos) return false;
  key_ = rest.substr(0, length);
  consume(length);
  state_ = State::kEquals;
  return true;
}

bool PythonCalls::equals(std::string_view rest) {
  if (is_space(rest[0])) {
    consume(1);
    return true;
  }
  if (rest[0] != '=') return end_call();
  consume(1);
  value_.clear();
  brackets_.clear();
  quote_ = 0;
  escaped_ = false;
  state_ = State::kValue;
  return true;
}

bool PythonCalls::value(std::string_view rest) {
  const char c = rest[0];
  if (quote_ == 0 && brackets_.empty() && (c == ',' || c == ')')) {
    end_value();
    state_ = State::kKey;
    return true;
  }
  value_.push_back(c);
  consume(1);
  if (quote_ != 0) {
    if (c == quote_ && !escaped_) quote_ = 0;
    escaped_ = c == '\\' && !escaped_;
  } else if (c == '"' || c == '\'') {
    quote_ = c;
    escaped_ = false;
  } else if (c == '(' || c == '[' || c == '{') {
    brackets_.push_back(c);
  } else if ((c == ')' || c == ']' || c == '}') && !brackets_.empty()) {
    brackets_.pop_back();
  }
  return true;
}

/// What is no literal is a string that holds what was written.
void PythonCalls::end_value() {
  const std::string_view text = trimmed(value_);
  sink_->arguments(std::string(sink_->has_arguments() ? ", " : "{") + json_text::quoted(key_) + ": " +
                   python_json(text).value_or(json_text::quoted(text)));
}

bool PythonCalls::between(std::string_view rest, bool last) {
  if (taken_.size() > 2 * kLongestName) return no_call();
  if (!syntax_.close.empty()) {
    const Match match = begins_with(rest, syntax_.close, last);
    if (match == Match::kMaybe) return false;
    if (match == Match::kYes) {
      taken_.clear();
      consume(syntax_.close.size());
      state_ = State::kText;
      return true;
    }
  }
  if (rest[0] == ']') {  // closes the list, whatever follows
    consume(1);
    return true;
  }
  if (is_space(rest[0]) || rest[0] == ',' || rest[0] == ';') return take(rest, 1);
  if (!is_name_char(rest[0])) return no_call();
  name_.clear();
  state_ = State::kName;
  return true;
}

}  // namespace slipstream::output
