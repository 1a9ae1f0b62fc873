// Which steps go with a tokenizer.ggml.pre name.
#include <array>
#include <string>

#include "engine/text/pretokenizer.h"
#include "engine/text/pretokenizer_expressions.h"

namespace slipstream {
namespace {

namespace ex = expressions;

struct Row {
  std::string_view name;
  std::array<std::string_view, 6> splits;  // expressions, isolated, in order; empty: no more
  bool digits = false;                     // numbers one by one, before all else
  bool nfc = false;
  bool whole_words_first = false;
  bool adds_bos = false;
};

constexpr bool kDigits = true, kNfc = true, kWhole = true, kBos = true;

const Row kRows[] = {
    {"gpt-2", {ex::kGpt2}},
    {"gpt2", {ex::kGpt2}},
    {"phi-2", {ex::kGpt2}},
    {"gigachat", {ex::kGpt2}},
    {"exaone4", {ex::kGpt2}},
    {"trillion", {ex::kGpt2}},
    {"granite-docling", {ex::kGpt2}},
    {"mpt", {ex::kGpt2}, !kDigits, kNfc},
    {"olmo", {ex::kGpt2}, !kDigits, kNfc},
    {"smollm", {ex::kGpt2}, kDigits},
    {"starcoder", {ex::kGpt2}, kDigits},
    {"refact", {ex::kGpt2}, kDigits},
    {"codeshell", {ex::kGpt2}, kDigits},
    {"exaone", {ex::kGpt2}, kDigits},
    {"mellum2", {ex::kGpt2}, kDigits},
    {"command-r", {ex::kGpt2}, kDigits, kNfc},
    {"llama3", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"llama-v3", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"llama-bpe", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"falcon3", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"lfm2", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"pixtral", {ex::kLlama3}, !kDigits, !kNfc, kWhole, kBos},
    {"dbrx", {ex::kLlama3}},
    {"smaug-bpe", {ex::kLlama3}},
    {"chatglm-bpe", {ex::kLlama3}},
    {"glm4", {ex::kLlama3}, !kDigits, !kNfc, kWhole},
    {"glm5", {ex::kLlama3}, !kDigits, !kNfc, kWhole},
    {"qwen2", {ex::kQwen2}, !kDigits, kNfc},
    {"deepseek-r1-qwen", {ex::kQwen2}, !kDigits, kNfc},
    {"megrez", {ex::kQwen2}, !kDigits, kNfc},
    {"stablelm2", {ex::kQwen2}, !kDigits, kNfc},
    {"hunyuan", {ex::kQwen2}},
    {"grok-2", {ex::kQwen2}},
    {"qwen35", {ex::kQwen35}, !kDigits, kNfc},
    {"deepseek-llm",
     {ex::kNewline, ex::kDeepseekLlmLetters, ex::kDeepseekLlmPunctuation, ex::kTrailingSpace, ex::kDeepseekCjk,
      R"(\p{N}+)"}},
    {"deepseek-coder",
     {ex::kNewline, ex::kSpacedLetters, ex::kSpacedPunctuation, ex::kDeepseekCjk, R"(\p{N})"}},
    {"deepseek-v3", {ex::kThreeDigits, ex::kDeepseek3Cjk, ex::kDeepseek3}},
    {"deepseek-r1", {ex::kThreeDigits, ex::kDeepseek3Cjk, ex::kDeepseek3}},
    {"hunyuan-dense", {ex::kThreeDigits, ex::kDeepseek3Cjk, ex::kDeepseek3}},
    {"joyai-llm", {ex::kThreeDigits, ex::kDeepseek3Cjk, ex::kDeepseek3}},
    {"tekken", {ex::kTekken}, !kDigits, !kNfc, kWhole, kBos},
    {"gpt-4o", {ex::kGpt4o}},
    {"llama4", {ex::kGpt4o}},
    {"bailingmoe", {ex::kBailing}},
    {"bailingmoe2", {ex::kBailing}},
    {"seed-coder", {ex::kSeedCoder}},
    {"bloom", {ex::kBloom}},
    {"poro-chat", {ex::kBloom}},
    {"viking", {ex::kBloom, R"(\p{N})"}},
};

constexpr PreTokenizer::Behavior kIsolated = PreTokenizer::Behavior::kIsolated;

}  // namespace

Result<NamedPreTokenizer> named_pretokenizer(std::string_view name) {
  NamedPreTokenizer out;
  if (name == "falcon") {
    // The one family with steps after the change to bytes.
    out.steps.add(PreTokenizer::Punctuation{PreTokenizer::Behavior::kContiguous});
    out.steps.add(PreTokenizer::ByteLevel{false, true});
    out.steps.add(PreTokenizer::Digits{false});
    SLIP_TRY(Pattern three, Pattern::compile(ex::kThreeAsciiDigits));
    out.steps.add(PreTokenizer::Split{std::move(three), kIsolated, false});
    return out;
  }
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    if (row.digits) out.steps.add(PreTokenizer::Digits{true});
    for (std::string_view expression : row.splits) {
      if (expression.empty()) break;
      SLIP_TRY(Pattern pattern, Pattern::compile(expression));
      out.steps.add(PreTokenizer::Split{std::move(pattern), kIsolated, false});
    }
    out.steps.add(PreTokenizer::ByteLevel{false, false});
    out.nfc = row.nfc;
    out.whole_words_first = row.whole_words_first;
    out.adds_bos = row.adds_bos;
    return out;
  }
  std::string known = "falcon";
  for (const Row& row : kRows) known += ", " + std::string(row.name);
  return unsupported("pre-tokenizer \"" + std::string(name) + "\" (tokenizer.ggml.pre) is not supported; known are " +
                     known + "; or use the model's safetensors folder with its tokenizer.json");
}

}  // namespace slipstream
