// The BPE model: one word of text to ids, by merges over bytes (byte-level) or characters with byte fallback
// (SentencePiece). Knows no special tokens and no pre-tokenizer.
//
// Const and shared between threads once filled.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/merges.h"
#include "engine/text/vocabulary.h"

namespace slipstream {

struct Bpe {
  enum class Units { kBytes, kCharacters };

  Units units = Units::kBytes;
  MergeTable merges;
  std::array<int32_t, 256> byte_ids{};                // kBytes: the token of one byte; kCharacters: <0xXX>; -1 if none
  std::unordered_map<char32_t, int32_t> characters;   // kCharacters: ids; from vocabulary size on: only met in merges
  int32_t vocabulary_size = 0;
  bool byte_fallback = false;      // unknown characters become their bytes' tokens
  bool whole_words_first = false;  // "ignore_merges"
  bool whole_newlines = false;     // Gemma 4: a word of line feeds only that is a token is that token
  bool fuse_unknown = false;
  int32_t unknown_id = -1;         // -1: what has no token is dropped, as the reference does

  /// Appends the ids of `word` (valid UTF-8). `scratch` saves an allocation per word.
  void encode(std::string_view word, const Vocabulary& vocabulary, std::vector<Symbol>& scratch,
              std::vector<int32_t>* out) const;

 private:
  void emit_unknown(std::string_view text, bool after_unknown, std::vector<int32_t>* out) const;
};

}  // namespace slipstream
