// Times masks of grammars over a real vocabulary: random walks through schemas, first with nothing kept ("cold"), then
// again with what the first walks have left ("warm"). One JSON line per schema, microseconds per mask.
//   bench_grammar MODEL [walks]      a .gguf file, a tokenizer.json (scripts/make_qwen_tokenizer), or a model folder
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/weights/checkpoint.h"

using namespace slipstream;

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path) {
  if (path.ends_with(".json")) {
    std::ifstream file(path, std::ios::binary);
    return Tokenizer::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  SLIP_TRY(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  return Tokenizer::load(*checkpoint);
}

struct Case {
  const char* name;
  grammar::Format format;
};

std::vector<Case> cases() {
  const std::string weather = R"({"type":"object","properties":{"location":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}},"required":["location"]})";
  std::string wide = R"({"type":"object","additionalProperties":false,"properties":{)";
  for (int i = 0; i < 40; ++i)
    wide += std::string(i ? "," : "") + "\"field_" + std::to_string(i) + R"(":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"number"}},{"type":"null"}]})";
  wide += "}}";
  const std::string tree = R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"label":{"type":"string","maxLength":80},"children":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["label","children"]}}})";
  std::vector<Case> out{{"json_object", grammar::Format::json_object()},
                        {"weather", grammar::Format::json_schema(weather)},
                        {"wide", grammar::Format::json_schema(wide)},
                        {"tree", grammar::Format::json_schema(tree)},
                        {"email", grammar::Format::json_schema(R"({"type":"string","format":"email"})")}};
  const auto tags = grammar::triggered_tags({"<tool_call>"}, {{grammar::Format::literal("<tool_call>\n"), grammar::Format::json_schema(weather),
                                                               grammar::Format::literal("\n</tool_call>")}}, {});
  if (tags.ok()) out.push_back({"triggered", *tags});
  return out;
}

std::vector<double> walk(const std::shared_ptr<grammar::GrammarMasks>& masks, const std::shared_ptr<const Tokenizer>& tokenizer, uint32_t seed) {
  std::mt19937 random(seed);
  grammar::GrammarConstraint constraint(masks, tokenizer);
  std::vector<uint32_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 31) / 32);
  std::vector<double> took;
  std::vector<int32_t> allowed;
  for (int step = 0; step < 200 && !constraint.ended(); ++step) {
    std::fill(mask.begin(), mask.end(), UINT32_MAX);
    const auto start = Clock::now();
    constraint.narrow(mask);
    took.push_back(microseconds(Clock::now() - start));
    allowed.clear();
    for (size_t w = 0; w < mask.size(); ++w)
      for (uint32_t word = mask[w]; word != 0; word &= word - 1) allowed.push_back(static_cast<int32_t>(w * 32) + __builtin_ctz(word));
    if (allowed.empty()) break;
    constraint.accept(allowed[random() % allowed.size()]);
  }
  return took;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_grammar MODEL [walks]\n");
    return 2;
  }
  const auto tokenizer = open_tokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  const int walks = argc > 2 ? std::atoi(argv[2]) : 20;
  const auto built = Clock::now();
  const auto trie = std::make_shared<const grammar::TokenTrie>(**tokenizer);
  std::printf("{\"vocabulary\": %d, \"nodes\": %zu, \"trie_ms\": %.1f}\n", (*tokenizer)->vocab_size(), trie->nodes().size(),
              microseconds(Clock::now() - built) / 1e3);
  for (const Case& one : cases()) {
    const auto start = Clock::now();
    const auto compiled = grammar::compile(one.format);
    const double compile_ms = microseconds(Clock::now() - start) / 1e3;
    if (!compiled.ok()) {
      std::fprintf(stderr, "%s: %s\n", one.name, compiled.error().message.c_str());
      return 1;
    }
    const auto masks = std::make_shared<grammar::GrammarMasks>(*compiled, trie);
    std::vector<double> cold, warm;
    for (int pass = 0; pass < 2; ++pass)
      for (int i = 0; i < walks; ++i)
        for (const double t : walk(masks, *tokenizer, static_cast<uint32_t>(i))) (pass == 0 ? cold : warm).push_back(t);
    std::printf("{\"case\": \"%s\", \"compile_ms\": %.2f, \"states\": %zu, \"masks\": %zu, \"cold_median\": %.1f, \"cold_p99\": %.1f, "
                "\"cold_max\": %.1f, \"warm_median\": %.1f, \"warm_p99\": %.1f, \"kept_kib\": %lld}\n",
                one.name, compile_ms, (*compiled)->state_count(), warm.size(), quantile(cold, 0.5), quantile(cold, 0.99), quantile(cold, 1),
                quantile(warm, 0.5), quantile(warm, 0.99), static_cast<long long>(masks->bytes() >> 10));
    std::fflush(stdout);
  }
  return 0;
}
