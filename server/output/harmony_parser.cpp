// See harmony_parser.h.
#include "server/output/harmony_parser.h"

#include "server/output/call_reader.h"
#include "server/output/tags.h"
#include "server/output/think_parser.h"
#include "server/output/value_text.h"

namespace slipstream::output {

using api::AnswerPart;
using api::PartKind;

namespace {

constexpr size_t kLongestHeader = 512;

/// The word behind `label` in a header, up to a blank or a tag; "" when it is not there.
std::string_view word_after(std::string_view header, std::string_view label) {
  const size_t found = header.find(label);
  if (found == std::string_view::npos) return {};
  std::string_view word = header.substr(found + label.size());
  size_t length = 0;
  while (length < word.size() && is_name_char(word[length])) ++length;
  return word.substr(0, length);
}

}  // namespace

HarmonyParser::HarmonyParser(std::unique_ptr<PartSink> sink, std::vector<std::string> marks, bool calls, bool split, bool show_special,
                             std::string_view prompt_tail)
    : start_(tag_text("<|start|>", marks)), channel_(tag_text("<|channel|>", marks)), message_(tag_text("<|message|>", marks)),
      constrain_(tag_text("<|constrain|>", marks)), end_(tag_text("<|end|>", marks)), call_(tag_text("<|call|>", marks)),
      return_(tag_text("<|return|>", marks)), marks_(std::move(marks)), calls_(calls), split_(split), show_special_(show_special),
      sink_(std::move(sink)) {
  // the prompt is read as the beginning of the answer, by the same rules; what it says is not said again
  std::vector<AnswerPart> said;
  sink_->bind(&said);
  for (size_t at = 0; at < prompt_tail.size();) {
    const size_t open = prompt_tail.find("<|", at);
    append_marked(&held_, prompt_tail.substr(at, open - at), false, marks_, false);
    if (open == std::string_view::npos) break;
    const size_t close = prompt_tail.find("|>", open);
    if (close == std::string_view::npos) break;
    append_marked(&held_, prompt_tail.substr(open, close + 2 - open), tag_text(prompt_tail.substr(open, close + 2 - open), marks_)[0] == kMark,
                  marks_, false);
    at = close + 2;
  }
  run(false);
}

void HarmonyParser::push(std::string_view text, bool control, std::vector<AnswerPart>* out) {
  sink_->bind(out);
  append_marked(&held_, text, control, marks_, show_special_);
  run(false);
}

void HarmonyParser::finish(std::vector<AnswerPart>* out) {
  sink_->bind(out);
  run(true);
  if (state_ == State::kHeader && header_.find(channel_) == std::string::npos) give_header();
  sink_->finish();
}

void HarmonyParser::run(bool last) {
  bool more = true;
  while (more && at_ < held_.size() && !sink_->done()) {
    const std::string_view rest = std::string_view(held_).substr(at_);
    switch (state_) {
      case State::kBetween: more = between(rest, last); break;
      case State::kHeader: more = header(rest, last); break;
      default: more = body(rest, last);
    }
  }
  held_.erase(0, sink_->done() ? held_.size() : at_);
  at_ = 0;
}

bool HarmonyParser::between(std::string_view rest, bool last) {
  const std::string tags[] = {start_, channel_, message_, end_, call_, return_};
  const TagSearch found = find_tag(rest, tags, last);
  if (found.at > 0) {
    give(rest.substr(0, found.at));
    at_ += found.at;
    return true;
  }
  if (found.tag < 0) return false;
  // a message that begins without <|start|> is the assistant's
  if (found.tag != 1 && found.tag != 2) at_ += tags[found.tag].size();
  if (found.tag > 2) return true;
  header_.clear();
  state_ = State::kHeader;
  return true;
}

bool HarmonyParser::header(std::string_view rest, bool last) {
  const std::string tags[] = {message_, start_, end_, call_, return_};
  const TagSearch found = find_tag(rest, tags, last);
  header_ += rest.substr(0, found.at);
  at_ += found.at;
  const bool none = header_.size() > kLongestHeader || header_.find('\n') != std::string::npos;
  if (none || found.tag > 0) {  // text that no header leads
    give_header();
    state_ = none ? State::kContent : State::kBetween;
    return true;
  }
  if (found.tag < 0) return false;
  at_ += message_.size();
  begin_body();
  return true;
}

void HarmonyParser::give_header() {
  constexpr std::string_view kRole = "assistant";  // as the prompt has it
  give(std::string_view(header_).substr(header_.starts_with(kRole) ? kRole.size() : 0));
  header_.clear();
}

void HarmonyParser::begin_body() {
  const std::string_view recipient = word_after(header_, "to="), channel = word_after(header_, channel_);
  if (calls_ && recipient.starts_with("functions.") && recipient.size() > 10) {
    sink_->start_call(recipient.substr(10));
    state_ = State::kCall;
    wrote_ = false;
  } else {
    const bool thinks = split_ && (channel == "analysis" || (!recipient.empty() && !recipient.starts_with("functions.")));
    sink_->begin(thinks ? PartKind::kReasoning : PartKind::kContent);
    state_ = thinks ? State::kReasoning : State::kContent;
  }
  header_.clear();
}

bool HarmonyParser::body(std::string_view rest, bool last) {
  const std::string tags[] = {end_, call_, return_, start_, channel_};
  const TagSearch found = find_tag(rest, tags, last);
  if (found.at > 0) {
    give(rest.substr(0, found.at));
    at_ += found.at;
    return true;
  }
  if (found.tag < 0) return false;
  if (found.tag < 3) at_ += tags[found.tag].size();
  end_body();
  return true;
}

void HarmonyParser::end_body() {
  if (state_ == State::kCall) sink_->end_call();
  state_ = State::kBetween;
}

void HarmonyParser::give(std::string_view text) {
  if (state_ != State::kCall) return sink_->plain(text);
  if (!wrote_) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    wrote_ = !text.empty();
  }
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kMark)
      ++i;
    else
      shown.push_back(text[i]);
  }
  sink_->arguments(shown);
}

}  // namespace slipstream::output
