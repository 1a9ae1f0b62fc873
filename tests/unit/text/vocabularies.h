// Small vocabularies for the tests of engine/text, as GGUF metadata.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer.h"
#include "tests/catch.h"

namespace slipstream::test {

using Metadata = std::map<std::string, MetaValue, std::less<>>;

inline constexpr int32_t kEnd = 0, kStart = 1, kThink = 2, kEndThink = 3, kFirstByte = 4;

inline std::string stand_in(std::string_view bytes) {
  std::string out;
  append_byte_characters(out, bytes);
  return out;
}

/// Byte-level BPE: <|end|>, <|start|> (control), <think>, </think> (user-defined), 256 bytes, then one token for each
/// merge {left, right} of raw bytes.
inline Metadata byte_level(const std::vector<std::pair<std::string, std::string>>& merges, std::string pre = "gpt-2") {
  std::vector<std::string> tokens{"<|end|>", "<|start|>", "<think>", "</think>"};
  std::vector<int64_t> types{3, 3, 4, 4};
  std::vector<std::string> lines;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(stand_in(std::string(1, static_cast<char>(byte))));
    types.push_back(1);
  }
  for (const auto& [left, right] : merges) {
    tokens.push_back(stand_in(left + right));
    types.push_back(1);
    lines.push_back(stand_in(left) + " " + stand_in(right));
  }
  return {{"tokenizer.ggml.model", std::string("gpt2")}, {"tokenizer.ggml.pre", std::move(pre)},
          {"tokenizer.ggml.tokens", tokens},             {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", lines},              {"tokenizer.ggml.bos_token_id", uint64_t{kStart}},
          {"tokenizer.ggml.eos_token_id", uint64_t{kEnd}}};
}

/// SentencePiece: <unk>, <s>, </s>, 256 byte pieces, then `pieces` with their scores.
inline Metadata sentencepiece(const std::vector<std::pair<std::string, double>>& pieces) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int64_t> types{2, 3, 3};
  std::vector<double> scores{0, 0, 0};
  for (int byte = 0; byte < 256; ++byte) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    types.push_back(6);
    scores.push_back(0);
  }
  for (const auto& [piece, score] : pieces) {
    tokens.push_back(piece);
    types.push_back(1);
    scores.push_back(score);
  }
  return {{"tokenizer.ggml.model", std::string("llama")}, {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},           {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.unknown_token_id", uint64_t{0}}, {"tokenizer.ggml.bos_token_id", uint64_t{1}},
          {"tokenizer.ggml.eos_token_id", uint64_t{2}}};
}

inline std::shared_ptr<const Tokenizer> loaded(const Metadata& metadata) {
  auto tokenizer = Tokenizer::from_gguf(metadata);
  INFO((tokenizer.ok() ? std::string() : tokenizer.error().message));
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

inline std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  auto found = tokenizer.encode(text, parse_special);
  INFO((found.ok() ? std::string() : found.error().message));
  REQUIRE(found.ok());
  return *found;
}

/// Repeatable, and the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t bound) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_;
};

}  // namespace slipstream::test
