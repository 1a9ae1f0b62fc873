// The one Tokenizer there is: added tokens, normalizer, pre-tokenizer, BPE, and back. Its parts are filled by the
// loaders (tokenizer_json.cpp, tokenizer_gguf.cpp); knows no file format.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace slipstream {

struct TokenizerParts {
  Vocabulary vocabulary{0};
  Bpe bpe;
  AddedTokens added;             // matched in the text as it comes
  AddedTokens added_normalized;  // matched after normalization
  Normalizer normalizer;
  PreTokenizer pretokenizer;
  std::vector<bool> special;     // by id
  int32_t bos = -1;
  std::vector<int32_t> eos;
  bool adds_bos = false;
  bool adds_eos = false;
  bool drops_first_space = false;
  std::string description;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  int32_t vocab_size() const override { return parts_.vocabulary.size(); }
  Result<std::vector<int32_t>> encode(std::string_view text, bool parse_special) const override;
  Result<std::vector<int32_t>> encode(std::span<const PromptSegment> segments) const override;
  std::string_view token_bytes(int32_t id) const override { return parts_.vocabulary.bytes(id); }
  bool is_special(int32_t id) const override;
  int32_t token_id(std::string_view text) const override;
  int32_t bos_id() const override { return parts_.bos; }
  std::vector<int32_t> eos_ids() const override { return parts_.eos; }
  bool adds_bos() const override { return parts_.adds_bos; }
  bool adds_eos() const override { return parts_.adds_eos; }
  bool drops_first_space() const override { return parts_.drops_first_space; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::string description() const override { return parts_.description; }

  /// Only while loading: what files beside the tokenizer say.
  TokenizerParts& parts() { return parts_; }

 private:
  using Ranges = std::vector<Pattern::Range>;
  Result<std::vector<int32_t>> encode_marked(std::string_view text, const Ranges& trusted) const;
  /// Text between added tokens: normalized, searched for normalized added tokens, then words.
  Status encode_section(std::string_view text, const Ranges& trusted, bool at_start, std::vector<int32_t>* out) const;
  Status encode_words(std::string text, bool at_start, std::vector<int32_t>* out) const;
  Result<std::string> normalize(std::string_view text, const Ranges& trusted, Ranges* trusted_after) const;

  TokenizerParts parts_;
};

/// True for the names by which known families end a turn or a text; files often list only one of theirs.
bool names_end_of_turn(std::string_view token);

}  // namespace slipstream
