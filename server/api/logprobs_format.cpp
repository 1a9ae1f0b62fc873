// See logprobs_format.h.
#include "server/api/logprobs_format.h"

#include <set>

#include "engine/base/utf8.h"
#include "engine/text/detokenizer.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

using json_text::append_bytes;
using json_text::append_float;
using json_text::append_int;
using json_text::append_string;

// JSON has no infinity; vLLM writes this for a token that cannot be drawn.
constexpr float kLowestLogprob = -9999.0f;

float shown(float logprob) { return logprob < kLowestLogprob ? kLowestLogprob : logprob; }

void append_chat_entry(std::string& out, const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  out += "{\"token\":";
  append_string(out, bytes);
  out += ",\"logprob\":";
  append_float(out, shown(logprob));
  out += ",\"bytes\":";
  append_bytes(out, bytes);
}

/// The legacy endpoint has no bytes field; OpenAI spells a token that is no text as bytes:\xNN.
std::string legacy_token(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  constexpr char hex[] = "0123456789abcdef";
  for (const char c : bytes) {
    out += "\\x";
    out.push_back(hex[static_cast<unsigned char>(c) >> 4]);
    out.push_back(hex[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

/// The four lists side by side.
struct LegacyLists {
  std::string tokens, values, tops, offsets;

  void add(const Tokenizer& tokenizer, int32_t top_logprobs, const TokenEntry& entry, int64_t shift) {
    if (!tokens.empty())
      for (std::string* list : {&tokens, &values, &tops, &offsets}) list->push_back(',');
    append_string(tokens, legacy_token(tokenizer, entry.id));
    append_int(offsets, entry.char_offset + shift);
    if (entry.unscored) {
      values += "null";
      tops += "null";
      return;
    }
    append_float(values, shown(entry.logprob.logprob));
    tops += "{";
    std::set<std::string> seen;  // two ids may spell the same text
    const auto& top = entry.logprob.top;
    for (size_t j = 0; j < top.size() && j < static_cast<size_t>(top_logprobs); ++j) {
      std::string key = legacy_token(tokenizer, top[j].first);
      if (!seen.insert(key).second) continue;
      if (seen.size() > 1) tops += ",";
      append_string(tops, key);
      tops += ":";
      append_float(tops, shown(top[j].second));
    }
    tops += "}";
  }
};

}  // namespace

void append_chat_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs, const std::vector<TokenEntry>& tokens) {
  out += "{\"content\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i) out.push_back(',');
    append_chat_entry(out, tokenizer, tokens[i].id, tokens[i].logprob.logprob);
    out += ",\"top_logprobs\":[";
    const auto& top = tokens[i].logprob.top;
    for (size_t j = 0; j < top.size() && j < static_cast<size_t>(top_logprobs); ++j) {
      if (j) out.push_back(',');
      append_chat_entry(out, tokenizer, top[j].first, top[j].second);
      out.push_back('}');
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
}

void append_legacy_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs, const ScoredPrompt* prompt,
                            const std::vector<TokenEntry>& tokens) {
  LegacyLists lists;
  if (prompt)
    for (const TokenEntry& entry : prompt->tokens) lists.add(tokenizer, top_logprobs, entry, 0);
  for (const TokenEntry& entry : tokens) lists.add(tokenizer, top_logprobs, entry, prompt ? prompt->chars : 0);
  out += "{\"tokens\":[" + lists.tokens + "],\"token_logprobs\":[" + lists.values + "],\"top_logprobs\":[" + lists.tops +
         "],\"text_offset\":[" + lists.offsets + "]}";
}

void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs, const ScoredPrompt& prompt) {
  const auto append_one = [&](int32_t id, float logprob, size_t rank, bool comma) {
    out += comma ? ",\"" : "\"";
    append_int(out, id);
    out += "\":{\"logprob\":";
    append_float(out, shown(logprob));
    out += ",\"rank\":";
    if (rank > 0)
      append_int(out, static_cast<int64_t>(rank));
    else
      out += "null";
    out += ",\"decoded_token\":";
    append_string(out, tokenizer.token_bytes(id));
    out.push_back('}');
  };
  out.push_back('[');
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    const TokenEntry& entry = prompt.tokens[i];
    if (i) out.push_back(',');
    if (entry.unscored) {
      out += "null";
      continue;
    }
    const auto& top = entry.logprob.top;
    size_t own = 0;  // rank of the token itself
    for (size_t j = 0; j < top.size(); ++j)
      if (top[j].first == entry.id) own = j + 1;
    out.push_back('{');
    append_one(entry.id, entry.logprob.logprob, own, false);
    for (size_t j = 0; j < top.size() && j < static_cast<size_t>(top_logprobs); ++j)
      if (top[j].first != entry.id) append_one(top[j].first, top[j].second, j + 1, true);
    out.push_back('}');
  }
  out.push_back(']');
}

ScoredPrompt scored_prompt(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& ids,
                           std::vector<TokenLogprob> scores, bool skip_special) {
  CHECK(scores.size() + 1 == ids.size(), "a score for each token but the first");
  ScoredPrompt out;
  Detokenizer detokenizer(tokenizer, skip_special);
  for (size_t i = 0; i < ids.size(); ++i) {
    TokenEntry entry;
    entry.id = ids[i];
    entry.unscored = i == 0;
    if (i > 0) entry.logprob = std::move(scores[i - 1]);
    entry.char_offset = out.chars;
    for (const char c : detokenizer.push(ids[i])) out.chars += (c & 0xc0) != 0x80;
    out.tokens.push_back(std::move(entry));
  }
  for (const char c : detokenizer.finish()) out.chars += (c & 0xc0) != 0x80;
  return out;
}

}  // namespace slipstream::api
