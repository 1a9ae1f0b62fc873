// The steps of a normalizer, each a small function over whole strings.
#include "engine/text/normalizer.h"

#include <utf8proc.h>

namespace slipstream {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t hit = text.find(from); hit != std::string_view::npos; hit = text.find(from, at)) {
    out.append(text.substr(at, hit - at)).append(to);
    at = hit + from.size();
  }
  return out.append(text.substr(at));
}

Result<std::string> replace_matches(std::string_view text, const Pattern& from, std::string_view to) {
  std::vector<Pattern::Range> matches;
  Pattern::Scratch scratch;
  SLIP_RETURN_IF_ERROR(from.find_all(text, scratch, &matches));
  std::string out;
  size_t at = 0;
  for (const Pattern::Range& match : matches) {
    out.append(text.substr(at, match.begin - at)).append(to);
    at = match.end;
  }
  return out.append(text.substr(at));
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += unicode::length_at(text, at)) {
    const char32_t c = unicode::code_point_at(text, at);
    if (c == 0x130) {  // the one character whose lower case is two
      out += "i\xCC\x87";
      continue;
    }
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
  return out;
}

std::string strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && unicode::is_white_space(unicode::code_point_at(text, 0)))
    text.remove_prefix(unicode::length_at(text, 0));
  while (right && !text.empty()) {
    const size_t last = unicode::previous(text, text.size());
    if (!unicode::is_white_space(unicode::code_point_at(text, last))) break;
    text = text.substr(0, last);
  }
  return std::string(text);
}

}  // namespace

bool Normalizer::prepends() const {
  for (const Step& step : steps_)
    if (std::holds_alternative<Prepend>(step)) return true;
  return false;
}

Result<std::string> Normalizer::apply(std::string_view text, bool with_prefix) const {
  std::string now(text);
  for (const Step& step : steps_) {
    if (const auto* form = std::get_if<NormalForm>(&step)) {
      now = unicode::normalize(now, form->form);
    } else if (const auto* prefix = std::get_if<Prepend>(&step)) {
      if (with_prefix && !now.empty()) now.insert(0, prefix->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      now = replace_all(now, replace->from, replace->to);
    } else if (const auto* pattern = std::get_if<ReplacePattern>(&step)) {
      SLIP_TRY(now, replace_matches(now, pattern->from, pattern->to));
    } else if (std::holds_alternative<Lowercase>(step)) {
      now = lowercase(now);
    } else if (const auto* stripped = std::get_if<Strip>(&step)) {
      now = strip(now, stripped->left, stripped->right);
    }
  }
  return now;
}

}  // namespace slipstream
