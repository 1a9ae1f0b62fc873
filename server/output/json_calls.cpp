// See json_calls.h. What is certain decides: once a call has started, it is never taken back; until then everything is kept to be
// released as text.
#include "server/output/json_calls.h"

#include <algorithm>

#include "server/output/value_text.h"

namespace slipstream::output {
namespace {

constexpr size_t kLongestHeader = 1024;
constexpr std::string_view kFence = "```json", kPlainFence = "```";

bool names_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

/// Keys that models write beside name and arguments. Any other makes the object an answer in JSON, not a call.
bool known_key(std::string_view key) { return names_arguments(key) || key == "name" || key == "type" || key == "id"; }

}  // namespace

JsonCalls::JsonCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, JsonCallSyntax syntax)
    : CallReader(sink, std::move(tools)), syntax_(std::move(syntax)), state_(syntax_.bare ? State::kBeginning : State::kText) {}

bool JsonCalls::step(std::string_view rest, bool last) {
  switch (state_) {
    case State::kBeginning: return beginning(rest, last);
    case State::kText: return text(rest, last);
    case State::kSection: return section(rest, last);
    case State::kOpen: return open(rest);
    case State::kHeader: return header(rest, last);
    case State::kArguments: return arguments(rest);
    case State::kKey: return key(rest);
    case State::kColon: return colon(rest);
    case State::kValue: return value(rest);
    case State::kAfterValue: return after_value(rest);
    case State::kBetween: return between(rest, last);
  }
  return false;
}

void JsonCalls::end() {
  if (state_ != State::kBetween) sink_->plain(taken_);  // between calls it holds separators only
  taken_.clear();
  started_ = false;
  state_ = syntax_.bare && !had_call_ ? State::kBeginning : State::kText;
}

bool JsonCalls::take(std::string_view rest, size_t bytes) {
  if (!started_) taken_ += rest.substr(0, bytes);
  consume(bytes);
  return true;
}

bool JsonCalls::break_off() {
  if (started_) return end_call();
  sink_->plain(taken_);
  taken_.clear();
  state_ = State::kText;
  return true;
}

bool JsonCalls::beginning(std::string_view rest, bool last) {
  if (is_space(rest[0])) return take(rest, 1);
  // thoughts hold JSON that is meant for nobody
  if (rest[0] == '{' && sink_->mode() == api::PartKind::kContent) return begin_object(rest);
  if (!syntax_.open.empty()) {
    const Match match = begins_with(rest, syntax_.open, last);
    if (match == Match::kMaybe) return false;
    if (match == Match::kYes) {
      state_ = State::kOpen;
      return take(rest, syntax_.open.size());
    }
  }
  return break_off();
}

bool JsonCalls::text(std::string_view rest, bool last) {
  const std::string none;
  const std::string tags[] = {syntax_.open, syntax_.section, had_call_ ? syntax_.close : none, had_call_ ? syntax_.section_end : none};
  const TagSearch found = find_tag(rest, tags, last);
  if (found.at > 0) {
    release(found.at);
    return true;
  }
  if (found.tag < 0) return false;
  if (found.tag >= 2) {  // left over from a call that has ended
    consume(tags[found.tag].size());
    return true;
  }
  state_ = found.tag == 0 ? State::kOpen : State::kSection;
  separated_ = id_next_ = false;
  name_.clear();
  return take(rest, tags[found.tag].size());
}

bool JsonCalls::section(std::string_view rest, bool last) {
  if (is_space(rest[0]) && taken_.size() < kLongestHeader) return take(rest, 1);
  const Match match = begins_with(rest, syntax_.open, last);
  if (match == Match::kMaybe) return false;
  if (match == Match::kNo) return break_off();
  state_ = State::kOpen;
  return take(rest, syntax_.open.size());
}

bool JsonCalls::open(std::string_view rest) {
  const char c = rest[0];
  if (taken_.size() > kLongestHeader) return break_off();
  if (is_space(c) || (c == '[' && syntax_.object)) return take(rest, 1);
  if (c == '{' && syntax_.object) return begin_object(rest);
  if (!syntax_.named || !is_name_char(c)) return break_off();
  state_ = State::kHeader;
  return true;
}

bool JsonCalls::header(std::string_view rest, bool last) {
  if (taken_.size() > kLongestHeader) return break_off();
  if (is_space(rest[0])) return take(rest, 1);
  if (rest[0] == '{') {
    if (name_.empty()) return break_off();
    start(name_);
    scanner_ = JsonScanner();
    state_ = State::kArguments;
    return true;
  }
  if (is_name_char(rest[0])) return header_name(rest, last);
  const auto at_tag = [&](std::string_view tag) { return tag.empty() ? Match::kNo : begins_with(rest, tag, last); };
  const Match separator = at_tag(syntax_.separator), id = at_tag(syntax_.id_tag), close = at_tag(syntax_.close);
  const Match fence = name_.empty() ? Match::kNo : at_tag(kFence);
  if (separator == Match::kYes) {
    separated_ = true;
    return take(rest, syntax_.separator.size());
  }
  if (id == Match::kYes) {
    id_next_ = true;
    return take(rest, syntax_.id_tag.size());
  }
  if (fence == Match::kYes) return take(rest, kFence.size());
  if (close == Match::kYes && separated_ && !name_.empty()) {  // no arguments at all
    start(name_);
    return end_call();
  }
  const Match maybe[] = {separator, id, fence, close};
  return std::find(std::begin(maybe), std::end(maybe), Match::kMaybe) == std::end(maybe) && break_off();
}

bool JsonCalls::header_name(std::string_view rest, bool last) {
  bool too_long = false;
  const size_t length = leading_name(rest, last, &too_long);
  if (too_long) return break_off();
  if (length == std::string_view::npos) return false;
  if (id_next_) {
    id_next_ = false;
  } else if (name_.empty() || separated_) {  // DeepSeek V3 writes the kind of call, a separator, then the name
    name_ = rest.substr(0, length);
    separated_ = false;
  } else {
    return break_off();
  }
  return take(rest, length);
}

bool JsonCalls::arguments(std::string_view rest) {
  std::string fragment;
  consume(scanner_.feed(rest, &fragment));
  sink_->arguments(fragment);
  if (scanner_.complete() || scanner_.broken()) return end_call();
  return true;
}

bool JsonCalls::begin_object(std::string_view rest) {
  started_ = false;
  name_.clear();
  arguments_.clear();
  key_.clear();
  scanner_ = JsonScanner();
  state_ = State::kKey;
  return take(rest, 1);
}

bool JsonCalls::key(std::string_view rest) {
  if (scanner_.first() == 0) {
    const char c = rest[0];
    if (is_space(c) || c == ',') return take(rest, 1);
    if (c == '}' && started_) {
      take(rest, 1);
      return end_call();
    }
    if (c != '"') return break_off();
  }
  take(rest, scanner_.feed(rest, &key_));
  if (scanner_.broken()) return break_off();
  if (!scanner_.complete()) return true;
  key_ = json_string(key_).value_or("");
  state_ = State::kColon;
  return true;
}

bool JsonCalls::colon(std::string_view rest) {
  if (is_space(rest[0])) return take(rest, 1);
  if (rest[0] != ':' || (!started_ && !known_key(key_))) return break_off();
  value_.clear();
  scanner_ = JsonScanner();
  state_ = State::kValue;
  return take(rest, 1);
}

bool JsonCalls::value(std::string_view rest) {
  take(rest, scanner_.feed(rest, &value_));
  const bool streams = started_ && names_arguments(key_) && (scanner_.first() == '{' || scanner_.first() == '[');
  if (streams) {
    sink_->arguments(value_);
    value_.clear();
  }
  if (scanner_.broken()) return break_off();
  if (!scanner_.complete()) return true;
  state_ = State::kAfterValue;
  return streams || value_read();
}

bool JsonCalls::value_read() {
  if (key_ == "name" && !started_) {
    const auto name = json_string(value_);
    if (!name || !name_allowed(*name)) return break_off();
    start(*name);
    give_arguments();
  } else if (names_arguments(key_)) {
    arguments_ = value_;
    if (started_) give_arguments();
  }
  return true;
}

/// An object in quotes was meant as the object.
void JsonCalls::give_arguments() {
  if (arguments_ != "null") {
    const auto inner = json_string(arguments_);
    sink_->arguments(inner && trimmed(*inner).starts_with('{') && is_json(*inner) ? *inner : arguments_);
  }
  arguments_.clear();
}

bool JsonCalls::after_value(std::string_view rest) {
  if (is_space(rest[0])) return take(rest, 1);
  if (rest[0] == ',') {
    key_.clear();
    scanner_ = JsonScanner();
    state_ = State::kKey;
    return take(rest, 1);
  }
  if (rest[0] != '}' || !started_) return break_off();
  take(rest, 1);
  return end_call();
}

bool JsonCalls::between(std::string_view rest, bool last) {
  const char c = rest[0];
  if (taken_.size() > kLongestHeader) return break_off();
  if (c == ']') {  // closes a list of calls, whatever follows
    consume(1);
    return true;
  }
  if (is_space(c) || c == ',' || (c == ';' && syntax_.bare)) return take(rest, 1);
  if (c == '{' && syntax_.object) return begin_object(rest);
  const std::string fence(syntax_.named ? kPlainFence : std::string_view());
  const std::string* tags[] = {&syntax_.close, &syntax_.section_end, &syntax_.open, &fence};
  bool maybe = false;
  for (const std::string*& tag : tags) {
    const Match match = tag->empty() ? Match::kNo : begins_with(rest, *tag, last);
    maybe = maybe || match == Match::kMaybe;
    if (match != Match::kYes) continue;
    if (tag == &fence) return take(rest, fence.size());
    taken_.clear();
    if (tag == &syntax_.open) {
      separated_ = id_next_ = false;
      name_.clear();
      state_ = State::kOpen;
      return take(rest, tag->size());
    }
    if (tag == &syntax_.section_end || syntax_.section.empty()) state_ = State::kText;
    consume(tag->size());
    return true;
  }
  return !maybe && break_off();
}

bool JsonCalls::name_allowed(std::string_view name) const {
  if (tools_->has(name)) return true;
  return !syntax_.declared_only && !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), is_name_char);
}

void JsonCalls::start(std::string_view name) {
  sink_->start_call(name);
  started_ = had_call_ = true;
  taken_.clear();
}

bool JsonCalls::end_call() {
  sink_->end_call();
  started_ = false;
  state_ = State::kBetween;
  return true;
}

}  // namespace slipstream::output
