// See call_reader.h.
#include "server/output/call_reader.h"

#include <algorithm>

#include "server/output/value_text.h"

namespace slipstream::output {
namespace {

constexpr size_t kMostBlanks = 256;

}  // namespace

void CallReader::push(std::string_view text) {
  held_ += text;
  run(false);
}

void CallReader::finish() {
  run(true);
  if (!sink_->done()) end();
}

void CallReader::run(bool last) {
  while (at_ < held_.size() && !sink_->done() && step(std::string_view(held_).substr(at_), last)) {
  }
  held_.erase(0, sink_->done() ? held_.size() : at_);
  at_ = 0;
}

void CallReader::release(size_t bytes) {
  sink_->plain(std::string_view(held_).substr(at_, bytes));
  consume(bytes);
}

TagSearch find_tag(std::string_view text, std::span<const std::string> tags, bool last) {
  TagSearch out{text.size(), -1};
  for (size_t i = 0; i < tags.size(); ++i) {
    const std::string& tag = tags[i];
    if (tag.empty()) continue;
    const size_t whole = text.find(tag);
    if (whole < out.at) {
      out = {whole, static_cast<int>(i)};
      continue;
    }
    if (last) continue;
    // the longest end of the text that begins the tag
    for (size_t length = std::min(tag.size() - 1, text.size()); length > 0; --length) {
      if (text.substr(text.size() - length) != std::string_view(tag).substr(0, length)) continue;
      if (text.size() - length < out.at) out = {text.size() - length, -1};
      break;
    }
  }
  return out;
}

Match begins_with(std::string_view text, std::string_view tag, bool last) {
  if (text.starts_with(tag)) return Match::kYes;
  return !last && tag.starts_with(text) ? Match::kMaybe : Match::kNo;
}

size_t leading_blanks(std::string_view text) {
  size_t count = 0;
  while (count < text.size() && is_space(text[count])) ++count;
  return count > kMostBlanks ? std::string_view::npos : count;
}

size_t leading_name(std::string_view text, bool last, bool* too_long) {
  size_t length = 0;
  while (length < text.size() && is_name_char(text[length])) ++length;
  *too_long = length > kLongestName;
  return *too_long || (length == text.size() && !last) ? std::string_view::npos : length;
}

}  // namespace slipstream::output
