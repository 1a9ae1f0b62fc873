// Text to ids and back for one vocabulary. Const and shared between threads after construction.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

/// A piece of a rendered prompt. Special tokens are recognised in trusted (template) text only; user text never
/// yields one.
struct PromptSegment {
  std::string text;
  bool trusted = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// From tokenizer.json (folder) or tokenizer.ggml.* (GGUF). Unsupported models and pre-tokenizers are refused by name.
  static Result<std::shared_ptr<const Tokenizer>> load(const Checkpoint& checkpoint);
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json);
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(
      const std::map<std::string, MetaValue, std::less<>>& metadata);

  /// Ids below this bound exist; the model's logits may be wider.
  virtual int32_t vocab_size() const = 0;
  /// text must be valid UTF-8 (kInvalidArgument otherwise). Near-linear time. parse_special: added tokens are matched.
  /// A regex match limit that is hit is kInvalidArgument.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool parse_special) const = 0;
  /// Segments in order; a trusted segment is encoded with added tokens matched. Adjacent segments of untrusted and
  /// trusted plain text are merged before the pre-tokenizer, so that the ids equal those of the joined string wherever
  /// no user text spells an added token.
  virtual Result<std::vector<int32_t>> encode(std::span<const PromptSegment> segments) const = 0;
  /// Raw bytes of a token: may be part of a UTF-8 character. Empty for ids out of range.
  virtual std::string_view token_bytes(int32_t id) const = 0;
  /// Control tokens (skipped by skip_special_tokens); "added but not special" tokens are visible text.
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t token_id(std::string_view text) const = 0;  // of a vocabulary entry or added token; -1 if none
  virtual int32_t bos_id() const = 0;                         // -1 if none
  virtual std::vector<int32_t> eos_ids() const = 0;
  virtual bool adds_bos() const = 0;                          // encode() of a plain prompt should be led by bos
  virtual bool adds_eos() const = 0;
  /// SentencePiece vocabularies with a dummy prefix: the first space of a decoded text is not part of it.
  virtual bool drops_first_space() const { return false; }
  /// Whole-string decode; invalid UTF-8 becomes U+FFFD. SentencePiece vocabularies drop the first space.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  /// "byte-level BPE, 49152 tokens, pre-tokenizer smollm".
  virtual std::string description() const = 0;
};

}  // namespace slipstream
