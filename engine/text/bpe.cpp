// A word is cut into units, merged, and what has no token falls back to bytes or to the unknown token.
#include "engine/text/bpe.h"

#include <algorithm>

#include "engine/text/unicode.h"

namespace slipstream {

void Bpe::encode(std::string_view word, const Vocabulary& vocabulary, std::vector<Symbol>& symbols,
                 std::vector<int32_t>* out) const {
  if (whole_words_first || (whole_newlines && word.find_first_not_of('\n') == std::string_view::npos)) {
    const int32_t id = vocabulary.find(word);
    if (id >= 0) {
      out->push_back(id);
      return;
    }
  }
  symbols.clear();
  symbols.reserve(word.size());
  if (units == Units::kBytes) {
    for (size_t at = 0; at < word.size(); ++at)
      symbols.push_back({byte_ids[static_cast<uint8_t>(word[at])], static_cast<uint32_t>(at)});
  } else {
    char32_t last = UINT32_MAX;
    int32_t id = -1;
    for (size_t at = 0; at < word.size(); at += unicode::length_at(word, at)) {
      if (const char32_t c = unicode::code_point_at(word, at); c != last) {
        const auto found = characters.find(c);
        id = found == characters.end() ? -1 : found->second;
        last = c;
      }
      symbols.push_back({id, static_cast<uint32_t>(at)});
    }
  }
  merge_symbols(merges, &symbols);
  bool after_unknown = false;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const bool known = symbols[i].id >= 0 && symbols[i].id < vocabulary_size;
    if (known) {
      out->push_back(symbols[i].id);
    } else {
      const size_t end = i + 1 < symbols.size() ? symbols[i + 1].begin : word.size();
      emit_unknown(word.substr(symbols[i].begin, end - symbols[i].begin), after_unknown, out);
    }
    after_unknown = !known;
  }
}

void Bpe::emit_unknown(std::string_view text, bool after_unknown, std::vector<int32_t>* out) const {
  const auto id_of = [&](char byte) { return byte_ids[static_cast<uint8_t>(byte)]; };
  if (byte_fallback && std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; })) {
    for (char byte : text) out->push_back(id_of(byte));
    return;
  }
  if (unknown_id < 0) return;
  if (fuse_unknown && after_unknown && !out->empty() && out->back() == unknown_id) return;
  out->push_back(unknown_id);
}

}  // namespace slipstream
