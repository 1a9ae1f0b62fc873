// See think_parser.h.
#include "server/output/think_parser.h"

#include <algorithm>

#include "server/output/value_text.h"

namespace slipstream::output {

using api::AnswerPart;
using api::PartKind;

void append_marked(std::string* out, std::string_view text, bool control, const std::vector<std::string>& marks, bool show_special) {
  if (control) {
    const auto found = std::find(marks.begin(), marks.end(), text);
    if (found != marks.end()) {
      out->push_back(kMark);
      out->push_back(static_cast<char>(found - marks.begin()));
      return;
    }
    if (!show_special) return;
  }
  for (const char c : text) {
    if (c == kMark)
      *out += "\xef\xbf\xbd";  // no UTF-8, so no text either
    else
      out->push_back(c);
  }
}

ThinkParser::ThinkParser(ThinkTags tags, bool inside, std::unique_ptr<PartSink> sink, std::unique_ptr<CallReader> calls,
                         std::vector<std::string> marks, bool show_special)
    : tags_(std::move(tags)), marks_(std::move(marks)), show_special_(show_special), sink_(std::move(sink)), calls_(std::move(calls)),
      state_(State::kBefore) {
  if (tags_.open.empty()) state_ = State::kContent;
  if (inside) {
    std::vector<AnswerPart> none;
    sink_->bind(&none);
    enter(State::kInside);
  }
}

void ThinkParser::push(std::string_view text, bool control, std::vector<AnswerPart>* out) {
  sink_->bind(out);
  append_marked(&held_, text, control, marks_, show_special_);
  run(false);
}

void ThinkParser::finish(std::vector<AnswerPart>* out) {
  sink_->bind(out);
  run(true);
  if (calls_) calls_->finish();
  sink_->finish();
}

void ThinkParser::run(bool last) {
  bool more = true;
  while (more && at_ < held_.size() && !sink_->done()) {
    const std::string_view rest = std::string_view(held_).substr(at_);
    switch (state_) {
      case State::kBefore: more = before(rest, last); break;
      case State::kInside: more = inside(rest, last); break;
      case State::kContent: more = content(rest, last); break;
    }
  }
  held_.erase(0, sink_->done() ? held_.size() : at_);
  at_ = 0;
}

void ThinkParser::forward(std::string_view text) {
  at_ += text.size();
  if (calls_)
    calls_->push(text);
  else
    sink_->plain(text);
}

void ThinkParser::enter(State state) {
  if (calls_) calls_->finish();
  sink_->begin(state == State::kInside ? PartKind::kReasoning : PartKind::kContent);
  state_ = state;
  fresh_ = true;
}

bool ThinkParser::before(std::string_view rest, bool last) {
  const size_t blanks = leading_blanks(rest);
  if (blanks == std::string_view::npos) {
    state_ = State::kContent;
    return true;
  }
  if (blanks == rest.size() && !last) return false;
  const std::string_view text = rest.substr(blanks);
  const Match open = begins_with(text, tags_.open, last), close = begins_with(text, tags_.close, last);
  if (open == Match::kYes) {
    at_ += blanks + tags_.open.size();
    enter(State::kInside);
    return true;
  }
  if (close == Match::kYes) {  // closes what the prompt has closed already
    at_ += blanks + tags_.close.size();
    sink_->drop_leading_lines();
    return true;
  }
  if (open == Match::kMaybe || close == Match::kMaybe) return false;
  state_ = State::kContent;
  return true;
}

bool ThinkParser::inside(std::string_view rest, bool last) {
  const std::string tags[] = {tags_.close, fresh_ ? tags_.open : std::string()};
  const TagSearch found = find_tag(rest, tags, last);
  const std::string_view text = rest.substr(0, found.at);
  const bool blank = trimmed(text).empty();
  if (found.at > 0) forward(text);
  if (sink_->mode() == PartKind::kContent) {  // a call has ended the thoughts
    state_ = State::kContent;
    return true;
  }
  fresh_ = fresh_ && blank;
  if (found.tag < 0) return false;
  if (found.tag == 1 && !fresh_) {  // mentioned, not opened
    forward(tags_.open);
    return true;
  }
  at_ += tags[found.tag].size();
  if (found.tag == 1) return true;  // the prompt had opened them already
  enter(State::kBefore);
  return true;
}

bool ThinkParser::content(std::string_view rest, bool last) {
  if (!tags_.marks) {
    forward(rest);
    return true;
  }
  const std::string tags[] = {tags_.open, tags_.close};
  const TagSearch found = find_tag(rest, tags, last);
  if (found.at > 0) forward(rest.substr(0, found.at));
  if (found.tag < 0) return false;
  at_ += tags[found.tag].size();
  if (found.tag == 0) enter(State::kInside);
  return true;
}

}  // namespace slipstream::output
