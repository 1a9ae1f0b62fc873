// A tokenizer from GGUF metadata: tokenizer.ggml.model "gpt2" (byte-level BPE), "llama" (SentencePiece BPE with
// scores), "gemma4" (SentencePiece-style BPE with merges). Every array and id is checked before use.
#include <algorithm>
#include <cmath>
#include <string>

#include "engine/text/bpe_tokenizer.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/pretokenizer_expressions.h"
#include "engine/text/sentencepiece.h"
#include "engine/text/token_merges.h"
#include "engine/text/unicode.h"

namespace slipstream {
namespace {

using Metadata = std::map<std::string, MetaValue, std::less<>>;

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxPieceBytes = 4096;  // each cut of a piece is tried, so the work is quadratic in this
constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581

std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

const MetaValue* value_of(const Metadata& metadata, std::string_view name) {
  const auto found = metadata.find(key(name));
  return found == metadata.end() ? nullptr : &found->second;
}

/// A value of one type; *out stays when the key is absent.
template <typename T>
Status read(const Metadata& metadata, std::string_view name, std::string_view type, T* out) {
  const MetaValue* value = value_of(metadata, name);
  if (value == nullptr) return Ok{};
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) return corrupt("GGUF: " + key(name) + " is not " + std::string(type));
  *out = *typed;
  return Ok{};
}

/// A token id, or -1 when absent.
Result<int32_t> read_id(const Metadata& metadata, std::string_view name, size_t tokens) {
  const MetaValue* value = value_of(metadata, name);
  if (value == nullptr) return -1;
  uint64_t id = UINT64_MAX;
  if (const auto* number = std::get_if<uint64_t>(value)) id = *number;
  else if (const auto* signed_number = std::get_if<int64_t>(value)) {
    if (*signed_number == -1) return -1;  // how some converters write "none"
    if (*signed_number >= 0) id = static_cast<uint64_t>(*signed_number);
  } else return corrupt("GGUF: " + key(name) + " is not an integer");
  if (id == UINT32_MAX) return -1;
  if (id >= tokens)
    return corrupt("GGUF: " + key(name) + " is " + std::to_string(id) + ", the vocabulary has " +
                   std::to_string(tokens) + " tokens");
  return static_cast<int32_t>(id);
}

enum TokenType : int64_t { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Source {
  const std::vector<std::string>* tokens = nullptr;
  std::vector<int64_t> types;
  std::string model;
  std::string pre;
  std::vector<bool> findable;
};

Status read_tokens(const Metadata& metadata, Source* source) {
  const MetaValue* tokens = value_of(metadata, "tokens");
  if (tokens == nullptr) return corrupt("GGUF: " + key("tokens") + " is missing: the file has no vocabulary");
  source->tokens = std::get_if<std::vector<std::string>>(tokens);
  if (source->tokens == nullptr) return corrupt("GGUF: " + key("tokens") + " is not an array of strings");
  const size_t count = source->tokens->size();
  if (count == 0 || count > kMaxTokens)
    return corrupt("GGUF: " + key("tokens") + " has " + std::to_string(count) + " entries; 1 to " +
                   std::to_string(kMaxTokens) + " are accepted");
  for (size_t i = 0; i < count; ++i)
    if (unicode::first_invalid_utf8((*source->tokens)[i]) != std::string_view::npos)
      return corrupt("GGUF: token " + std::to_string(i) + " is not valid UTF-8");
  source->types.assign(count, kNormal);
  SLIP_RETURN_IF_ERROR(read(metadata, "token_type", "an array of integers", &source->types));
  if (source->types.size() != count)
    return corrupt("GGUF: " + key("token_type") + " has " + std::to_string(source->types.size()) +
                   " entries, the vocabulary has " + std::to_string(count));
  for (size_t i = 0; i < count; ++i)
    if (source->types[i] < kUndefined || source->types[i] > kByte)
      return corrupt("GGUF: token " + std::to_string(i) + " has type " + std::to_string(source->types[i]) +
                     "; 0 to 6 are known");
  return Ok{};
}

/// Control, user-defined and unknown tokens: matched as whole strings.
Status add_added_tokens(const Source& source, TokenizerParts* parts) {
  parts->special.assign(source.tokens->size(), false);
  for (size_t i = 0; i < source.tokens->size(); ++i) {
    const int64_t type = source.types[i];
    const std::string& content = (*source.tokens)[i];
    const bool special = type == kControl || type == kUnknown;
    parts->special[i] = special;
    if ((!special && type != kUserDefined) || content.empty()) continue;
    if (content.size() > AddedTokens::kMaxContentBytes)
      return corrupt("GGUF: added token " + std::to_string(i) + " has " + std::to_string(content.size()) +
                     " bytes; at most " + std::to_string(AddedTokens::kMaxContentBytes) + " are accepted");
    if (const int32_t other = parts->added.find(content); other >= 0)
      return corrupt("GGUF: tokens " + std::to_string(other) + " and " + std::to_string(i) + " are the same");
    AddedToken token;
    token.id = static_cast<int32_t>(i);
    token.content = content;
    token.special = special;
    parts->added.add(std::move(token));
  }
  return Ok{};
}

bool is_added(int64_t type) { return type == kControl || type == kUserDefined || type == kUnknown; }

Status duplicate(int32_t twin, const Source& source) {
  return corrupt("GGUF: token " + std::to_string(twin) + " \"" + (*source.tokens)[static_cast<size_t>(twin)] +
                 "\" is in the vocabulary twice");
}

Status read_merges(const Metadata& metadata, TokenizerParts* parts) {
  const MetaValue* value = value_of(metadata, "merges");
  if (value == nullptr) return corrupt("GGUF: " + key("merges") + " is missing: a BPE vocabulary needs it");
  const auto* merges = std::get_if<std::vector<std::string>>(value);
  if (merges == nullptr) return corrupt("GGUF: " + key("merges") + " is not an array of strings");
  TokenMerges table(&parts->vocabulary, &parts->bpe, merges->size());
  for (const std::string& merge : *merges) SLIP_RETURN_IF_ERROR(table.add_line(merge));
  return Ok{};
}

/// Byte-level BPE.
Status load_gpt2(const Metadata& metadata, Source& source, TokenizerParts* parts) {
  SLIP_RETURN_IF_ERROR(read(metadata, "pre", "a string", &source.pre));
  if (source.pre.empty() || source.pre == "default")
    return unsupported("GGUF: " + key("pre") +
                       " does not name the pre-tokenizer (an old conversion); convert the model again, or use its "
                       "safetensors folder with tokenizer.json");
  SLIP_TRY(NamedPreTokenizer named, named_pretokenizer(source.pre));
  parts->pretokenizer = std::move(named.steps);
  if (named.nfc) parts->normalizer.add(Normalizer::NormalForm{unicode::Form::kNfc});
  parts->adds_bos = named.adds_bos;
  parts->bpe.whole_words_first = named.whole_words_first;
  parts->bpe.units = Bpe::Units::kBytes;

  source.findable.assign(source.tokens->size(), false);
  std::string bytes;
  for (size_t i = 0; i < source.tokens->size(); ++i) {
    const std::string& token = (*source.tokens)[i];
    bytes.clear();
    const bool ordinary = !is_added(source.types[i]) && append_bytes_of(bytes, token) && !bytes.empty();
    source.findable[i] = ordinary;
    parts->vocabulary.set_bytes(static_cast<int32_t>(i), ordinary ? bytes : token);
  }
  if (const int32_t twin = parts->vocabulary.index(source.findable); twin >= 0) return duplicate(twin, source);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    parts->bpe.byte_ids[static_cast<size_t>(byte)] = parts->vocabulary.find(std::string_view(&c, 1));
  }
  return read_merges(metadata, parts);
}

/// The vocabulary of SentencePiece: U+2581 for a space, <0xXX> for bytes.
Status fill_pieces(Source& source, TokenizerParts* parts) {
  parts->bpe.units = Bpe::Units::kCharacters;
  parts->bpe.byte_fallback = true;
  parts->bpe.byte_ids.fill(-1);
  source.findable.assign(source.tokens->size(), false);
  for (size_t i = 0; i < source.tokens->size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string& token = (*source.tokens)[i];
    if (token.size() > kMaxPieceBytes)
      return corrupt("GGUF: token " + std::to_string(i) + " has " + std::to_string(token.size()) + " bytes; at most " +
                     std::to_string(kMaxPieceBytes) + " are accepted");
    if (source.types[i] == kByte) {
      const int byte = byte_of_piece(token);
      if (byte < 0)
        return corrupt("GGUF: token " + std::to_string(i) + " \"" + token + "\" has type byte, but is not <0xXX>");
      int32_t& slot = parts->bpe.byte_ids[static_cast<size_t>(byte)];
      if (slot >= 0) return duplicate(id, source);
      slot = id;
      const char c = static_cast<char>(byte);
      parts->vocabulary.set_bytes(id, std::string_view(&c, 1));
      continue;
    }
    source.findable[i] = !is_added(source.types[i]) && !token.empty();
    parts->vocabulary.set_bytes(id, source.types[i] == kControl || source.types[i] == kUnknown ? token
                                                                                               : spaced(token));
  }
  if (const int32_t twin = parts->vocabulary.index(source.findable); twin >= 0) return duplicate(twin, source);
  return Ok{};
}

/// SentencePiece BPE: the order of merges is the order of scores.
Status load_llama(const Metadata& metadata, Source& source, TokenizerParts* parts) {
  std::vector<double> scores;
  SLIP_RETURN_IF_ERROR(read(metadata, "scores", "an array of numbers", &scores));
  if (scores.size() != source.tokens->size())
    return corrupt("GGUF: " + key("scores") + " has " + std::to_string(scores.size()) +
                   " entries, the vocabulary has " + std::to_string(source.tokens->size()));
  for (size_t i = 0; i < scores.size(); ++i)
    if (!std::isfinite(scores[i])) return corrupt("GGUF: the score of token " + std::to_string(i) + " is not finite");
  bool prefix = true;
  SLIP_RETURN_IF_ERROR(read(metadata, "add_space_prefix", "a boolean", &prefix));
  if (prefix) parts->normalizer.add(Normalizer::Prepend{std::string(kMark)});
  parts->normalizer.add(Normalizer::Replace{" ", std::string(kMark)});
  parts->drops_first_space = prefix;
  parts->adds_bos = true;
  SLIP_RETURN_IF_ERROR(fill_pieces(source, parts));
  // User-defined pieces take part: text that is not trusted may spell them, and a piece may grow through them.
  std::vector<bool> mergeable(source.tokens->size());
  for (size_t i = 0; i < mergeable.size(); ++i)
    mergeable[i] = source.types[i] == kNormal || source.types[i] == kUndefined ||
                   (source.types[i] == kUserDefined && is_plain({0, (*source.tokens)[i]}));
  merges_from_scores(*source.tokens, scores, mergeable, &parts->bpe);
  return Ok{};
}

/// Gemma 4: BPE by merges over characters, no words but lines.
Status load_gemma4(const Metadata& metadata, Source& source, TokenizerParts* parts) {
  parts->normalizer.add(Normalizer::Replace{" ", std::string(kMark)});
  SLIP_TRY(Pattern lines, Pattern::compile(expressions::kLines));
  parts->pretokenizer.add(PreTokenizer::Split{std::move(lines), PreTokenizer::Behavior::kIsolated, false});
  parts->bpe.whole_newlines = true;
  parts->adds_bos = true;
  SLIP_RETURN_IF_ERROR(fill_pieces(source, parts));
  for (size_t i = 0; i < source.tokens->size(); ++i) {
    const std::string& token = (*source.tokens)[i];
    if (source.findable[i] && unicode::length_at(token, 0) == token.size())
      parts->bpe.characters.emplace(unicode::code_point_at(token, 0), static_cast<int32_t>(i));
  }
  return read_merges(metadata, parts);
}

Status read_special_ids(const Metadata& metadata, const Source& source, TokenizerParts* parts) {
  const size_t count = source.tokens->size();
  SLIP_TRY(parts->bos, read_id(metadata, "bos_token_id", count));
  SLIP_RETURN_IF_ERROR(read(metadata, "add_bos_token", "a boolean", &parts->adds_bos));
  SLIP_RETURN_IF_ERROR(read(metadata, "add_eos_token", "a boolean", &parts->adds_eos));
  const auto add_eos = [&](int32_t id) {
    if (id >= 0 && std::find(parts->eos.begin(), parts->eos.end(), id) == parts->eos.end()) parts->eos.push_back(id);
  };
  for (std::string_view name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    SLIP_TRY(const int32_t id, read_id(metadata, name, count));
    add_eos(id);
  }
  for (std::string_view name : {"padding_token_id", "seperator_token_id", "mask_token_id"})
    SLIP_RETURN_IF_ERROR([&]() -> Status {
      SLIP_TRY(const int32_t id, read_id(metadata, name, count));
      (void)id;
      return Ok{};
    }());
  // Many files name one end of turn only; a control token with the name of another ends the text as well.
  for (const AddedToken& token : parts->added.tokens())
    if (token.special && names_end_of_turn(token.content)) add_eos(token.id);
  SLIP_TRY(const int32_t unknown, read_id(metadata, "unknown_token_id", count));
  if (parts->bpe.units == Bpe::Units::kCharacters) parts->bpe.unknown_id = unknown;
  if (parts->bos < 0) parts->adds_bos = false;
  if (parts->eos.empty()) parts->adds_eos = false;
  return Ok{};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const Metadata& metadata) {
  Source source;
  SLIP_RETURN_IF_ERROR(read(metadata, "model", "a string", &source.model));
  if (source.model.empty()) return corrupt("GGUF: " + key("model") + " is missing: the file has no tokenizer");
  if (source.model != "gpt2" && source.model != "llama" && source.model != "gemma4") {
    std::string kind = source.model == "bert" ? " (WordPiece)" : source.model == "t5" ? " (Unigram)" : "";
    return unsupported("GGUF: tokenizer model \"" + source.model + "\"" + kind +
                       " is not supported; gpt2 (byte-level BPE), llama (SentencePiece BPE) and gemma4 are");
  }
  SLIP_RETURN_IF_ERROR(read_tokens(metadata, &source));
  TokenizerParts parts;
  parts.vocabulary = Vocabulary(static_cast<int32_t>(source.tokens->size()));
  parts.bpe.vocabulary_size = parts.vocabulary.size();
  SLIP_RETURN_IF_ERROR(add_added_tokens(source, &parts));
  if (source.model == "gpt2") {
    SLIP_RETURN_IF_ERROR(load_gpt2(metadata, source, &parts));
  } else if (source.model == "llama") {
    SLIP_RETURN_IF_ERROR(load_llama(metadata, source, &parts));
  } else {
    SLIP_RETURN_IF_ERROR(load_gemma4(metadata, source, &parts));
  }
  SLIP_RETURN_IF_ERROR(read_special_ids(metadata, source, &parts));
  parts.description = (source.model == "gpt2"    ? "byte-level BPE, "
                       : source.model == "llama" ? "SentencePiece BPE, "
                                                 : "SentencePiece-style BPE, ") +
                      std::to_string(parts.vocabulary.size()) + " tokens" +
                      (source.pre.empty() ? "" : ", pre-tokenizer " + source.pre);
  return std::shared_ptr<const Tokenizer>(std::make_shared<BpeTokenizer>(std::move(parts)));
}

}  // namespace slipstream
