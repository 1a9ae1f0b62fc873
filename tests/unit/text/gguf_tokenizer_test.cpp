// Tokenizers from GGUF metadata: encoding, SentencePiece against its definition, and damaged files.
#include <cmath>
#include <map>

#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

const std::string kMark = "\xE2\x96\x81";

/// The message of the refusal of `metadata` after `key` was set to `value`.
template <typename T>
std::string refusal(Metadata metadata, const std::string& key, T value, ErrorCode code = ErrorCode::kCorrupt) {
  metadata["tokenizer.ggml." + key] = std::move(value);
  const auto tokenizer = Tokenizer::from_gguf(metadata);
  REQUIRE_FALSE(tokenizer.ok());
  CHECK(tokenizer.error().code == code);
  CHECK(tokenizer.error().message.find('\n') == std::string::npos);
  return tokenizer.error().message;
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// SentencePiece's BPE by its definition: join the neighbours whose join is a piece with the best score, leftmost
/// first; what is no piece in the end becomes bytes.
std::vector<int32_t> by_definition(const std::vector<std::pair<std::string, double>>& pieces, const std::string& text) {
  std::vector<std::string> word;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<uint8_t>(text[at]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : 3;
    word.push_back(text.substr(at, length));
    at += length;
  }
  std::map<std::string, std::pair<double, int32_t>> known;
  for (size_t i = 0; i < pieces.size(); ++i) known[pieces[i].first] = {pieces[i].second, static_cast<int32_t>(259 + i)};
  for (;;) {
    size_t best = word.size();
    double score = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = known.find(word[i] + word[i + 1]);
      if (found == known.end() || (best != word.size() && found->second.first <= score)) continue;
      best = i;
      score = found->second.first;
    }
    if (best == word.size()) break;
    word[best] += word[best + 1];
    word.erase(word.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> out;
  for (const std::string& piece : word) {
    if (const auto found = known.find(piece); found != known.end()) {
      out.push_back(found->second.second);
    } else {
      for (const char byte : piece) out.push_back(3 + static_cast<uint8_t>(byte));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("byte-level BPE follows its merges") {
  const auto tokenizer = loaded(byte_level({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "hello"}}));
  CHECK(tokenizer->vocab_size() == 265);
  CHECK(ids(*tokenizer, "hello hello") == std::vector<int32_t>{263, 264});
  CHECK(ids(*tokenizer, "hellhe") == std::vector<int32_t>{262, 260});
  CHECK(ids(*tokenizer, "") == std::vector<int32_t>{});
  CHECK(ids(*tokenizer, "\xC3\xA9") == std::vector<int32_t>{kFirstByte + 0xC3, kFirstByte + 0xA9});
  CHECK(tokenizer->token_id(stand_in(" hello")) == 264);
  CHECK(tokenizer->token_id("<|start|>") == kStart);
  CHECK(tokenizer->token_id("nothing") == -1);
  CHECK(tokenizer->token_bytes(264) == " hello");
  CHECK(tokenizer->bos_id() == kStart);
  CHECK(tokenizer->eos_ids() == std::vector<int32_t>{kEnd});
  CHECK_FALSE(tokenizer->adds_bos());
  CHECK(tokenizer->is_special(kStart));
  CHECK_FALSE(tokenizer->is_special(kThink));
  CHECK_FALSE(tokenizer->is_special(100'000));
  CHECK(tokenizer->description() == "byte-level BPE, 265 tokens, pre-tokenizer gpt-2");
  const auto bad = tokenizer->encode("a\xFF", false);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("whole words come first where the family says so") {
  // "abc" is a token that no merge reaches: a+b is not there.
  auto with = byte_level({{"b", "c"}, {"a", "bc"}}, "llama-bpe");
  std::get<std::vector<std::string>>(with["tokenizer.ggml.merges"]).pop_back();
  CHECK(ids(*loaded(with), "abc") == std::vector<int32_t>{261});
  CHECK(loaded(with)->adds_bos());
  with["tokenizer.ggml.pre"] = std::string("dbrx");
  CHECK(ids(*loaded(with), "abc") == std::vector<int32_t>{kFirstByte + 'a', 260});
  CHECK_FALSE(loaded(with)->adds_bos());
}

TEST_CASE("every named pre-tokenizer compiles and keeps every byte") {
  for (const char* name : {"gpt-2", "smollm", "llama3", "llama-bpe", "qwen2", "qwen35", "glm4", "chatglm-bpe", "deepseek-llm",
                           "deepseek-coder", "deepseek-v3", "falcon", "starcoder", "refact", "command-r", "gpt-4o", "tekken",
                           "bailingmoe", "seed-coder", "bloom", "viking", "mpt", "stablelm2"}) {
    INFO(name);
    const auto tokenizer = loaded(byte_level({}, name));
    const std::string text = "It's 12345 caf\xC3\xA9\t \n\r\n  x \xE4\xB8\xAD\xE6\x96\x87\xE3\x81\x8B HTTPServer!? \xC2\xB2 \xF0\x9F\x99\x82 end  ";
    const auto found = ids(*tokenizer, text);
    CHECK(found.size() == text.size());
    CHECK(tokenizer->decode(found, false) == text);
  }
}

TEST_CASE("SentencePiece BPE is what its definition gives") {
  Random random(17);
  const std::vector<std::string> letters{"a", "b", kMark, "\xC3\xA9"};
  size_t joined = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<std::string, double>> pieces{{kMark, -20'000}};  // without it a space would become bytes
    std::map<std::string, bool> seen{{kMark, true}};
    const bool equal_scores = round % 4 == 0;
    for (int i = 0; i < 25; ++i) {
      std::string piece;
      for (uint32_t k = 0, length = 1 + random.below(4); k < length; ++k) piece += letters[random.below(4)];
      if (seen[piece]) continue;
      seen[piece] = true;
      pieces.push_back({piece, equal_scores ? -static_cast<double>(random.below(3)) : -static_cast<double>(random.below(10'000))});
    }
    auto metadata = sentencepiece(pieces);
    metadata["tokenizer.ggml.add_space_prefix"] = false;
    const auto tokenizer = loaded(metadata);
    for (int k = 0; k < 30; ++k) {
      std::string text, marked;
      for (uint32_t n = random.below(100); n > 0; --n) {
        const std::string& letter = letters[random.below(4)];
        marked += letter;
        text += letter == kMark ? " " : letter;
      }
      const auto expected = by_definition(pieces, marked);
      REQUIRE(ids(*tokenizer, text) == expected);
      CHECK(tokenizer->decode(expected, false) == text);
      joined += marked.size() - expected.size();
    }
  }
  CHECK(joined > 10'000);
}

TEST_CASE("SentencePiece never joins into a control token") {
  const auto tokenizer = loaded(sentencepiece({{"<", -1}, {"s", -1}, {">", -1}, {"<s", -2}, {kMark, -3}}));
  const auto found = ids(*tokenizer, "<s>");
  CHECK(found == std::vector<int32_t>{263, 262, 261});
  CHECK(ids(*tokenizer, "<s>", true) == std::vector<int32_t>{1});
  CHECK(tokenizer->token_id("<0x41>") == 3 + 0x41);
  CHECK(tokenizer->token_id(kMark) == 263);
  CHECK(tokenizer->adds_bos());
}

TEST_CASE("damaged vocabularies are refused with the entry and the bound") {
  const Metadata good = byte_level({{"a", "b"}, {"ab", "c"}});
  REQUIRE(Tokenizer::from_gguf(good).ok());
  using Strings = std::vector<std::string>;
  using Integers = std::vector<int64_t>;
  CHECK(has(refusal(good, "merges", Strings{"a b c"}), "merge 0 is \"a b c\"; two tokens with exactly one space"));
  for (const char* merge : {"ab", " a", "a ", "", " ", "a  b"}) CHECK(has(refusal(good, "merges", Strings{merge}), "exactly one space"));
  CHECK(has(refusal(good, "merges", Strings{"a b", "b c"}), "merge 1 joins \"b\" and \"c\", but their join is not in the vocabulary"));
  CHECK(has(refusal(good, "merges", Strings{"a xyz"}), "xyz is not in the vocabulary"));
  CHECK(has(refusal(good, "merges", Integers{1}), "not an array of strings"));
  CHECK(has(refusal(good, "token_type", Integers{1, 2}), "has 2 entries, the vocabulary has 262"));
  CHECK(has(refusal(good, "token_type", Integers(262, 9)), "token 0 has type 9"));
  CHECK(has(refusal(good, "tokens", Strings{}), "has 0 entries"));
  CHECK(has(refusal(good, "tokens", Integers{1}), "not an array of strings"));
  CHECK(has(refusal(good, "bos_token_id", uint64_t{262}), "is 262, the vocabulary has 262 tokens"));
  CHECK(has(refusal(good, "eos_token_id", int64_t{-7}), "eos_token_id"));
  CHECK(has(refusal(good, "padding_token_id", uint64_t{1} << 40), "padding_token_id"));
  CHECK(has(refusal(good, "add_bos_token", int64_t{1}), "not a boolean"));
  CHECK(has(refusal(good, "pre", std::string("nonsense"), ErrorCode::kUnsupported), "\"nonsense\""));
  CHECK(has(refusal(good, "pre", std::string("default"), ErrorCode::kUnsupported), "convert the model again"));
  CHECK(has(refusal(good, "model", std::string("bert"), ErrorCode::kUnsupported), "\"bert\" (WordPiece)"));
  CHECK(has(refusal(good, "model", std::string("t5"), ErrorCode::kUnsupported), "\"t5\" (Unigram)"));
  CHECK(has(refusal(good, "model", true), "not a string"));

  Strings tokens = std::get<Strings>(good.at("tokenizer.ggml.tokens"));
  tokens[261] = tokens[260];
  CHECK(has(refusal(good, "tokens", tokens), "token 261 \"ab\" is in the vocabulary twice"));
  tokens[261] = "\xFF";
  CHECK(has(refusal(good, "tokens", tokens), "token 261 is not valid UTF-8"));
  tokens = std::get<Strings>(good.at("tokenizer.ggml.tokens"));
  tokens[kEnd] = tokens[kStart];
  CHECK(has(refusal(good, "tokens", tokens), "tokens 0 and 1 are the same"));
  Metadata none = good;
  none.erase("tokenizer.ggml.tokens");
  CHECK_FALSE(Tokenizer::from_gguf(none).ok());
  CHECK_FALSE(Tokenizer::from_gguf({}).ok());

  const Metadata pieces = sentencepiece({{"a", -1}, {"b", -2}});
  CHECK(has(refusal(pieces, "scores", std::vector<double>{1.0}), "has 1 entries, the vocabulary has 261"));
  CHECK(has(refusal(pieces, "scores", std::vector<double>(261, HUGE_VAL)), "not finite"));
  Strings bytes = std::get<Strings>(pieces.at("tokenizer.ggml.tokens"));
  bytes[3] = "<0xG0>";
  CHECK(has(refusal(pieces, "tokens", bytes), "is not <0xXX>"));
  bytes[3] = bytes[4];
  CHECK(has(refusal(pieces, "tokens", bytes), "twice"));
  bytes[3] = "<0x00>";
  bytes[260] = std::string(5000, 'x');
  CHECK(has(refusal(pieces, "tokens", bytes), "token 260 has 5000 bytes"));
}
