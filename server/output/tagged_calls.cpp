// See tagged_calls.h. Values may hold the format's own tags: an end counts only where the call visibly goes on behind it.
#include "server/output/tagged_calls.h"

#include <algorithm>

#include "server/json_text.h"
#include "server/output/value_text.h"

namespace slipstream::output {
namespace {

constexpr size_t kLongestKey = 256;
constexpr size_t kLongestStart = 1024;
constexpr size_t kNowhere = std::string_view::npos;

/// Whether more text could still make `text` one of the words for null.
bool may_become_null(std::string_view text) {
  std::string lower(trimmed(text));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::string_view("null").starts_with(lower) || std::string_view("none").starts_with(lower);
}

}  // namespace

TagCalls::TagCalls(PartSink* sink, std::shared_ptr<const ToolSet> tools, TagCallSyntax syntax)
    : CallReader(sink, std::move(tools)), syntax_(std::move(syntax)) {}

bool TagCalls::step(std::string_view rest, bool last) {
  switch (state_) {
    case State::kText: return text(rest, last);
    case State::kSection: return section(rest, last);
    case State::kName: return name(rest, last);
    case State::kFirst: return first(rest, last);
    case State::kArguments: return arguments(rest, last);
    case State::kKey: return key(rest, last);
    case State::kValueTag: return value_tag(rest, last);
    case State::kValue: return value(rest, last);
    case State::kBetween: return between(rest, last);
  }
  return false;
}

void TagCalls::end() {
  // cut off right behind the name of a function that was offered: nothing else can have been meant
  if (state_ == State::kFirst && tools_->has(name_)) return start();
  sink_->plain(taken_);
  taken_.clear();
  state_ = State::kText;
}

bool TagCalls::take(std::string_view rest, size_t bytes) {
  taken_ += rest.substr(0, bytes);
  consume(bytes);
  return true;
}

bool TagCalls::no_call() {
  sink_->plain(taken_);
  taken_.clear();
  state_ = State::kText;
  return true;
}

bool TagCalls::text(std::string_view rest, bool last) {
  const std::string none;
  const std::string tags[] = {syntax_.section, syntax_.section_optional ? syntax_.open : none, had_call_ ? syntax_.section_end : none,
                              had_call_ ? syntax_.close : none};
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
  unwrapped_ = found.tag == 1;
  name_.clear();
  state_ = unwrapped_ ? State::kName : State::kSection;
  return take(rest, tags[found.tag].size());
}

bool TagCalls::section(std::string_view rest, bool last) {
  if (taken_.size() > kLongestStart) return no_call();
  if (is_space(rest[0])) return take(rest, 1);
  unwrapped_ = false;
  name_.clear();
  const Match match = begins_with(rest, syntax_.open, last);
  if (match == Match::kMaybe) return false;
  if (match == Match::kNo) return no_call();
  state_ = State::kName;
  take(rest, syntax_.open.size());
  return true;
}

bool TagCalls::name(std::string_view rest, bool last) {
  if (name_.empty()) {
    bool too_long = false;
    const size_t length = leading_name(rest, last, &too_long);
    if (too_long || length == 0) return no_call();
    if (length == kNowhere) return false;
    name_ = rest.substr(0, length);
    return take(rest, length);
  }
  const Match match = begins_with(rest, syntax_.open_end, last);
  if (match == Match::kMaybe) return false;
  if (match == Match::kNo || (unwrapped_ && !tools_->has(name_))) return no_call();
  state_ = State::kFirst;
  return take(rest, syntax_.open_end.size());
}

bool TagCalls::first(std::string_view rest, bool last) {
  if (taken_.size() > kLongestStart) return no_call();
  if (is_space(rest[0])) return take(rest, 1);
  const Match key = begins_with(rest, syntax_.key, last), close = begins_with(rest, syntax_.close, last);
  if (last && tools_->has(name_) && (syntax_.key.starts_with(rest) || syntax_.close.starts_with(rest))) {
    consume(rest.size());  // cut off inside the tag: end() starts the call
    return true;
  }
  if (key != Match::kYes && close != Match::kYes) return (key == Match::kNo && close == Match::kNo) ? no_call() : false;
  start();
  return true;
}

void TagCalls::start() {
  sink_->start_call(name_);
  had_call_ = true;
  taken_.clear();
  given_.clear();
  state_ = State::kArguments;
}

bool TagCalls::end_call() {
  if (sink_->has_arguments()) sink_->arguments("}");
  sink_->end_call();
  state_ = State::kBetween;
  return true;
}

bool TagCalls::arguments(std::string_view rest, bool last) {
  if (is_space(rest[0])) {
    consume(1);
    return true;
  }
  const Match key = begins_with(rest, syntax_.key, last), close = begins_with(rest, syntax_.close, last);
  if (key == Match::kYes) {
    state_ = State::kKey;
    consume(syntax_.key.size());
    return true;
  }
  if (close == Match::kYes) {
    consume(syntax_.close.size());
    return end_call();
  }
  if (key == Match::kMaybe || close == Match::kMaybe) return false;
  return end_call();  // its closing tag is missing, or something else stands here
}

bool TagCalls::key(std::string_view rest, bool last) {
  const size_t end = rest.find(syntax_.key_end);
  if (end == kNowhere || end > kLongestKey) {
    if (end == kNowhere && rest.size() <= kLongestKey && !last) return false;
    if (!last) return end_call();
    consume(rest.size());
    return true;
  }
  key_ = trimmed(rest.substr(0, end));
  consume(end + syntax_.key_end.size());
  if (syntax_.value.empty() && !syntax_.typed)
    begin_value(tools_->kinds(name_, key_));
  else
    state_ = State::kValueTag;
  return true;
}

bool TagCalls::value_tag(std::string_view rest, bool last) {
  if (is_space(rest[0])) {
    consume(1);
    return true;
  }
  const uint8_t kinds = tools_->kinds(name_, key_);
  const std::pair<std::string_view, uint8_t> typed[] = {
      {"string=\"true\">", kString}, {"string=\"false\">", kAnyKind & ~kString}, {">", kinds}};
  const std::pair<std::string_view, uint8_t> plain[] = {{syntax_.value, kinds}};
  bool maybe = false;
  for (const auto& [tag, allowed] : syntax_.typed ? std::span<const std::pair<std::string_view, uint8_t>>(typed)
                                                  : std::span<const std::pair<std::string_view, uint8_t>>(plain)) {
    const Match match = begins_with(rest, tag, last);
    maybe = maybe || match == Match::kMaybe;
    if (match != Match::kYes) continue;
    consume(tag.size());
    begin_value(allowed);
    return true;
  }
  return !maybe && end_call();
}

void TagCalls::begin_value(uint8_t kinds) {
  state_ = State::kValue;
  kinds_ = kinds;
  ignored_ = !given_.insert(key_).second;
  buffered_.clear();
  line_end_ = streams_ = false;
  padding_ = syntax_.padded;
  if (ignored_) return;
  sink_->arguments(std::string(sink_->has_arguments() ? ", " : "{") + json_text::quoted(key_) + ": ");
  if (kinds_ != kString) return;
  streams_ = true;
  sink_->arguments("\"");
}

bool TagCalls::value(std::string_view rest, bool last) {
  const ValueEnd end = find_value_end(rest, last);
  give_value(rest.substr(0, end.at));
  if (end.resume == kNowhere) {
    // a tag that the end of the text cuts off belongs to no value
    consume(last ? rest.size() : end.at);
    return last || end.at > 0;
  }
  consume(end.resume);
  end_value();
  return true;
}

TagCalls::ValueEnd TagCalls::find_value_end(std::string_view text, bool last) const {
  const std::string line_end = syntax_.padded ? "\n" : "";
  const std::string tags[] = {syntax_.value_end, line_end + syntax_.key, line_end + syntax_.close};
  size_t from = 0;
  while (true) {
    TagSearch found = find_tag(text.substr(from), tags, false);
    found.at += from;
    if (found.tag < 0) return {found.at, kNowhere};
    const size_t behind = found.at + tags[found.tag].size();
    const std::string_view rest = text.substr(behind);
    const Match match = found.tag == 1 ? names_new_argument(rest, last) : call_goes_on(rest, last);
    if (match == Match::kYes) return {found.at, found.tag == 0 ? behind : found.at};
    if (match == Match::kMaybe) return {found.at, kNowhere};
    from = found.at + 1;
  }
}

Match TagCalls::call_goes_on(std::string_view text, bool last) const {
  const size_t blanks = leading_blanks(text);
  if (blanks == kNowhere) return Match::kNo;
  if (blanks == text.size()) return last ? Match::kYes : Match::kMaybe;
  Match out = Match::kNo;
  for (const std::string* tag : {&syntax_.key, &syntax_.close, &syntax_.section_end, &syntax_.section}) {
    if (tag->empty()) continue;
    const Match match = begins_with(text.substr(blanks), *tag, last);
    if (match == Match::kYes) return match;
    if (match == Match::kMaybe) out = match;
  }
  return out;
}

Match TagCalls::names_new_argument(std::string_view text, bool last) const {
  const size_t end = text.find(syntax_.key_end);
  if (end == kNowhere) return last || text.size() > kLongestKey || text.find('\n') != kNowhere ? Match::kNo : Match::kMaybe;
  const std::string_view key = trimmed(text.substr(0, end));
  return tools_->declares(name_, key) && !given_.contains(key) ? Match::kYes : Match::kNo;
}

void TagCalls::give_value(std::string_view text) {
  if (text.empty() || ignored_) return;
  if (padding_) {
    padding_ = false;
    if (text[0] == '\n') text.remove_prefix(1);
    if (text.empty()) return;
  }
  if (line_end_) give_text("\n");
  line_end_ = syntax_.padded && text.back() == '\n';
  if (line_end_) text.remove_suffix(1);
  give_text(text);
}

void TagCalls::give_text(std::string_view text) {
  if (!streams_) {
    buffered_ += text;
    if (kinds_ != (kString | kNull) || may_become_null(buffered_)) return;
    streams_ = true;
    sink_->arguments("\"");
    text = buffered_;
  }
  std::string escaped;
  append_escaped(&escaped, text);
  sink_->arguments(escaped);
}

void TagCalls::end_value() {
  state_ = State::kArguments;
  if (ignored_) return;
  sink_->arguments(streams_ ? "\"" : value_json(buffered_, kinds_));
}

bool TagCalls::between(std::string_view rest, bool last) {
  if (taken_.size() > kLongestStart) return no_call();
  if (is_space(rest[0])) return take(rest, 1);
  const std::string* tags[] = {&syntax_.section_end, &syntax_.section, &syntax_.open};
  bool maybe = false;
  for (const std::string*& tag : tags) {
    const Match match = tag->empty() ? Match::kNo : begins_with(rest, *tag, last);
    maybe = maybe || match == Match::kMaybe;
    if (match != Match::kYes) continue;
    taken_.clear();
    if (tag == &syntax_.section_end) {
      consume(tag->size());
      state_ = State::kText;
      return true;
    }
    name_.clear();
    state_ = tag == &syntax_.section ? State::kSection : State::kName;
    return take(rest, tag->size());
  }
  return !maybe && no_call();
}

}  // namespace slipstream::output
