// Encoding in sections between added tokens; which bytes of the prompt are trusted travels along as ranges.
#include "engine/text/bpe_tokenizer.h"

#include <algorithm>
#include <array>

#include "engine/text/byte_alphabet.h"
#include "engine/text/unicode.h"

namespace slipstream {
namespace {

using Ranges = std::vector<Pattern::Range>;

/// The parts of `ranges` inside [begin, end), counted from `begin`.
Ranges clipped(const Ranges& ranges, size_t begin, size_t end) {
  Ranges out;
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const auto& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range)
    out.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  return out;
}

void append_range(Ranges* ranges, size_t begin, size_t end) {
  if (begin == end) return;
  if (!ranges->empty() && ranges->back().end == begin)
    ranges->back().end = end;
  else
    ranges->push_back({begin, end});
}

}  // namespace

Result<std::vector<int32_t>> BpeTokenizer::encode(std::string_view text, bool parse_special) const {
  return encode_marked(text, parse_special && !text.empty() ? Ranges{{0, text.size()}} : Ranges{});
}

Result<std::vector<int32_t>> BpeTokenizer::encode(std::span<const PromptSegment> segments) const {
  std::string text;
  Ranges trusted;
  for (const PromptSegment& segment : segments) {
    if (segment.trusted) append_range(&trusted, text.size(), text.size() + segment.text.size());
    text += segment.text;
  }
  return encode_marked(text, trusted);
}

Result<std::vector<int32_t>> BpeTokenizer::encode_marked(std::string_view text, const Ranges& trusted) const {
  const size_t bad = unicode::first_invalid_utf8(text);
  if (bad != std::string_view::npos)
    return invalid_argument("the text is not valid UTF-8: byte " + std::to_string(bad) + " of " +
                            std::to_string(text.size()));
  if (text.size() > UINT32_MAX / 4)
    return invalid_argument("the text has " + std::to_string(text.size()) + " bytes; at most " +
                            std::to_string(UINT32_MAX / 4) + " can be tokenized");
  std::vector<int32_t> out;
  size_t at = 0;
  for (const AddedTokens::Match& match : parts_.added.matches(text, trusted)) {
    SLIP_RETURN_IF_ERROR(
        encode_section(text.substr(at, match.begin - at), clipped(trusted, at, match.begin), at == 0, &out));
    out.push_back(match.id);
    at = match.end;
  }
  SLIP_RETURN_IF_ERROR(encode_section(text.substr(at), clipped(trusted, at, text.size()), at == 0, &out));
  return out;
}

Result<std::string> BpeTokenizer::normalize(std::string_view text, const Ranges& trusted, Ranges* after) const {
  after->clear();
  SLIP_TRY(std::string whole, parts_.normalizer.apply(text));
  if (parts_.added_normalized.empty() || trusted.empty()) return whole;
  if (trusted.size() == 1 && trusted[0].begin == 0 && trusted[0].end == text.size()) {
    append_range(after, 0, whole.size());
    return whole;
  }
  // Part by part, to see where the borders of trust end up. Where parts meet and change each other (an accent after a
  // letter), the borders are unknown and nothing counts as trusted.
  std::string joined;
  if (parts_.normalizer.prepends()) {
    SLIP_TRY(const std::string bare, parts_.normalizer.apply(text, false));
    joined = whole.substr(0, whole.size() - std::min(whole.size(), bare.size()));
  }
  size_t at = 0;
  const auto add = [&](size_t end, bool is_trusted) -> Status {
    SLIP_TRY(const std::string part, parts_.normalizer.apply(text.substr(at, end - at), false));
    if (is_trusted) append_range(after, joined.size(), joined.size() + part.size());
    joined += part;
    at = end;
    return Ok{};
  };
  for (const Pattern::Range& range : trusted) {
    SLIP_RETURN_IF_ERROR(add(range.begin, false));
    SLIP_RETURN_IF_ERROR(add(range.end, true));
  }
  SLIP_RETURN_IF_ERROR(add(text.size(), false));
  if (joined != whole) after->clear();
  return whole;
}

Status BpeTokenizer::encode_section(std::string_view text, const Ranges& trusted, bool at_start,
                                    std::vector<int32_t>* out) const {
  if (text.empty()) return Ok{};
  Ranges trusted_after;
  SLIP_TRY(std::string normalized, normalize(text, trusted, &trusted_after));
  if (parts_.added_normalized.empty()) return encode_words(std::move(normalized), at_start, out);
  size_t at = 0;
  for (const AddedTokens::Match& match : parts_.added_normalized.matches(normalized, trusted_after)) {
    SLIP_RETURN_IF_ERROR(encode_words(normalized.substr(at, match.begin - at), at_start && at == 0, out));
    out->push_back(match.id);
    at = match.end;
  }
  return encode_words(normalized.substr(at), at_start && at == 0, out);
}

Status BpeTokenizer::encode_words(std::string text, bool at_start, std::vector<int32_t>* out) const {
  SLIP_TRY(const Words words, parts_.pretokenizer.run(std::move(text), at_start));
  std::vector<Symbol> scratch;
  for (const Pattern::Range& word : words.ranges)
    parts_.bpe.encode(std::string_view(words.text).substr(word.begin, word.end - word.begin), parts_.vocabulary,
                      scratch, out);
  return Ok{};
}

bool BpeTokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && parts_.special[static_cast<size_t>(id)];
}

int32_t BpeTokenizer::token_id(std::string_view text) const {
  if (const int32_t id = parts_.added.find(text); id >= 0) return id;
  if (const int32_t id = parts_.added_normalized.find(text); id >= 0) return id;
  if (unicode::first_invalid_utf8(text) != std::string_view::npos) return -1;
  std::string bytes;
  if (parts_.bpe.units == Bpe::Units::kBytes) {
    if (!append_bytes_of(bytes, text)) return -1;
    return parts_.vocabulary.find(bytes);
  }
  if (text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>') {
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    const size_t high = kHex.find(text[3]), low = kHex.find(text[4]);
    if (high != std::string_view::npos && low != std::string_view::npos) return parts_.bpe.byte_ids[high * 16 + low];
  }
  for (size_t at = 0; at < text.size();) {  // the vocabulary is indexed by what its tokens decode to
    if (text.substr(at, 3) == "\xE2\x96\x81") {
      bytes += ' ';
      at += 3;
    } else {
      bytes += text[at++];
    }
  }
  return parts_.vocabulary.find(bytes);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids)
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  std::string_view view = bytes;
  if (drops_first_space() && !view.empty() && view[0] == ' ') view.remove_prefix(1);
  std::string out;
  out.reserve(view.size());
  if (unicode::append_repaired(out, view) > 0) append_utf8(out, unicode::kReplacement);
  return out;
}

bool names_end_of_turn(std::string_view token) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
      "<|return|>", "<|call|>", "<EOT>", "</s>", "<eos>",
      "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};  // DeepSeek's
  return std::find(kNames.begin(), kNames.end(), token) != kNames.end();
}

}  // namespace slipstream
