// The steps, each from one list of words to the next, as Hugging Face tokenizers defines them.
#include "engine/text/pretokenizer.h"

#include <utility>

#include "engine/text/byte_alphabet.h"
#include "engine/text/pretokenizer_expressions.h"
#include "engine/text/unicode.h"

namespace slipstream {
namespace {

using Behavior = PreTokenizer::Behavior;
using Range = Pattern::Range;

struct Part {
  Range range;
  bool match;
};

/// Joins matches and the text between them as `behavior` says.
void arrange(const std::vector<Part>& parts, Behavior behavior, std::vector<Range>* out) {
  const size_t first = out->size();
  bool previous_match = false;
  for (const Part& part : parts) {
    const bool has_previous = out->size() > first;
    switch (behavior) {
      case Behavior::kRemoved:
        if (!part.match) out->push_back(part.range);
        break;
      case Behavior::kIsolated: out->push_back(part.range); break;
      case Behavior::kContiguous:
        if (has_previous && part.match == previous_match)
          out->back().end = part.range.end;
        else
          out->push_back(part.range);
        break;
      case Behavior::kMergedWithPrevious:
        if (part.match && !previous_match && has_previous)
          out->back().end = part.range.end;
        else
          out->push_back(part.range);
        break;
      case Behavior::kMergedWithNext: break;  // below: it looks from the other end
    }
    previous_match = part.match;
  }
  if (behavior != Behavior::kMergedWithNext) return;
  std::vector<Range> backwards;
  previous_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->match && !previous_match && !backwards.empty())
      backwards.back().begin = part->range.begin;
    else
      backwards.push_back(part->range);
    previous_match = part->match;
  }
  out->insert(out->end(), backwards.rbegin(), backwards.rend());
}

/// Every character for which `holds` is a match of its own.
template <typename Predicate>
void split_characters(Words* words, Behavior behavior, Predicate holds) {
  std::vector<Range> next;
  std::vector<Part> parts;
  for (const Range& word : words->ranges) {
    parts.clear();
    size_t gap = word.begin;
    for (size_t at = word.begin; at < word.end;) {
      const size_t end = at + unicode::length_at(words->text, at);
      if (holds(unicode::code_point_at(words->text, at))) {
        if (gap < at) parts.push_back({{gap, at}, false});
        parts.push_back({{at, end}, true});
        gap = end;
      }
      at = end;
    }
    if (gap < word.end) parts.push_back({{gap, word.end}, false});
    arrange(parts, behavior, &next);
  }
  words->ranges = std::move(next);
}

/// Rewrites each word by `change(word, out)` into a new text.
template <typename Change>
void rewrite(Words* words, Change change) {
  std::string text;
  text.reserve(words->text.size() + words->text.size() / 8 + 16);
  for (Range& word : words->ranges) {
    const size_t begin = text.size();
    change(std::string_view(words->text).substr(word.begin, word.end - word.begin), word.begin == 0, text);
    word = {begin, text.size()};
  }
  words->text = std::move(text);
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void apply_metaspace(const PreTokenizer::Metaspace& step, bool at_start, Words* words) {
  rewrite(words, [&](std::string_view word, bool first, std::string& out) {
    const bool wanted = step.prefix == PreTokenizer::Prefix::kAlways ||
                        (step.prefix == PreTokenizer::Prefix::kFirst && at_start && first);
    if (wanted && word[0] != ' ' && word.substr(0, step.mark.size()) != step.mark) out += step.mark;
    for (char c : word) {
      if (c == ' ')
        out += step.mark;
      else
        out += c;
    }
  });
  if (!step.split) return;
  std::vector<Range> next;
  std::vector<Part> parts;
  for (const Range& word : words->ranges) {
    parts.clear();
    size_t gap = word.begin;
    for (;;) {
      const size_t hit = words->text.find(step.mark, gap);
      if (hit == std::string::npos || hit >= word.end) break;
      if (gap < hit) parts.push_back({{gap, hit}, false});
      gap = hit + step.mark.size();
      parts.push_back({{hit, gap}, true});
    }
    if (gap < word.end) parts.push_back({{gap, word.end}, false});
    arrange(parts, Behavior::kMergedWithNext, &next);
  }
  words->ranges = std::move(next);
}

}  // namespace

PreTokenizer::PreTokenizer() : gpt2_(Pattern::compile(expressions::kGpt2).value()) {}

bool PreTokenizer::byte_level() const {
  for (const Step& step : steps_)
    if (std::holds_alternative<ByteLevel>(step)) return true;
  return false;
}

Status PreTokenizer::apply(const Split& step, Words* words, Pattern::Scratch& scratch) const {
  std::vector<Range> next;
  std::vector<Range> matches;
  std::vector<Part> parts;
  next.reserve(words->ranges.size());
  for (const Range& word : words->ranges) {
    // A word is matched as a text of its own: look-around must not see its neighbours.
    const std::string_view text = std::string_view(words->text).substr(word.begin, word.end - word.begin);
    SLIP_RETURN_IF_ERROR(step.pattern.find_all(text, scratch, &matches));
    parts.clear();
    size_t gap = 0;
    for (const Range& match : matches) {
      if (gap < match.begin) parts.push_back({{word.begin + gap, word.begin + match.begin}, step.invert});
      parts.push_back({{word.begin + match.begin, word.begin + match.end}, !step.invert});
      gap = match.end;
    }
    if (gap < text.size()) parts.push_back({{word.begin + gap, word.end}, step.invert});
    arrange(parts, step.behavior, &next);
  }
  words->ranges = std::move(next);
  return Ok{};
}

Result<Words> PreTokenizer::run(std::string text, bool at_start) const {
  Words words{std::move(text), {}};
  if (words.text.empty()) return words;
  words.ranges.push_back({0, words.text.size()});
  Pattern::Scratch scratch;
  bool mapped = false;  // the text is in the byte alphabet
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (const auto* split = std::get_if<Split>(&step)) {
      SLIP_RETURN_IF_ERROR(apply(*split, &words, scratch));
    } else if (const auto* digits = std::get_if<Digits>(&step)) {
      split_characters(&words, digits->individual ? Behavior::kIsolated : Behavior::kContiguous, unicode::is_number);
    } else if (const auto* punctuation = std::get_if<Punctuation>(&step)) {
      split_characters(&words, punctuation->behavior,
                       [](char32_t c) { return is_ascii_punctuation(c) || unicode::is_punctuation(c); });
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      apply_metaspace(*metaspace, at_start, &words);
    } else if (const auto* bytes = std::get_if<ByteLevel>(&step)) {
      if (bytes->prefix_space)
        rewrite(&words, [](std::string_view word, bool, std::string& out) {
          if (word[0] != ' ') out += ' ';
          out += word;
        });
      if (bytes->use_expression)
        SLIP_RETURN_IF_ERROR(apply(Split{gpt2_, Behavior::kIsolated, false}, &words, scratch));
      // Steps that follow see the stand-in characters; when none does, the detour is saved.
      if (i + 1 < steps_.size()) {
        rewrite(&words, [](std::string_view word, bool, std::string& out) { append_byte_characters(out, word); });
        mapped = true;
      }
    }
  }
  if (mapped)
    rewrite(&words, [](std::string_view word, bool, std::string& out) {
      CHECK(append_bytes_of(out, word), "a word left the byte alphabet");
    });
  return words;
}

}  // namespace slipstream
