// The grammar engine at the command line, for the Python tests: a JSON request per line of standard input, a JSON answer per
// line of standard output. Random walks through the masks, and texts that a grammar accepts or refuses.
//
//   grammar MODEL              a .gguf file, a tokenizer.json, or a model folder
//   request: {"kind": "json_schema" | "json_object" | "regex" | "ebnf" | "choice" | "structural_tag" | "xml", "text": "…",
//             "whitespace": "fixed" | pattern, "walks": N, "seed": N, "tokens": N, "accept": ["…"]}
//   answer:  {"walks": [{"text": "…", "ended": bool, "stuck": bool, "tokens": N}], "accept": [bool], "compile_ms": X}
//            or {"error": "…", "param": "…", "code": N, "compile_ms": X}
#include <nlohmann/json.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/weights/checkpoint.h"

namespace slipstream::grammar {
namespace {

using Json = nlohmann::json;

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path) {
  if (path.ends_with(".json")) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return io_error(path + " cannot be read");
    return Tokenizer::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  SLIP_TRY(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  return Tokenizer::load(*checkpoint);
}

Result<Format> format_of(const Json& request) {
  const std::string kind = request["kind"], text = request.value("text", "");
  Whitespace whitespace;
  const std::string space = request.value("whitespace", "");
  if (space == "fixed") whitespace.kind = Whitespace::Kind::kFixed;
  else if (!space.empty()) whitespace = {Whitespace::Kind::kPattern, space};
  if (kind == "json_schema") return Format::json_schema(text, "schema", whitespace);
  if (kind == "json_object") return Format::json_object(whitespace);
  if (kind == "regex") return Format::regex(text, "regex");
  if (kind == "ebnf") return Format::ebnf(text, "grammar");
  if (kind == "choice") return Format::choice(Json::parse(text).get<std::vector<std::string>>(), "choice");
  if (kind == "structural_tag") return parse_structural_tag(text, "structural_tag");
  if (kind == "xml") return Format::xml_parameters(text, "schema", whitespace);
  return invalid_argument("unknown kind " + kind);
}

class Session {
 public:
  explicit Session(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)), trie_(std::make_shared<const TokenTrie>(*tokenizer_)) {}

  Json answer(const Json& request) {
    const auto start = std::chrono::steady_clock::now();
    const auto format = format_of(request);
    auto grammar = format.ok() ? compile(*format) : Result<std::shared_ptr<const Grammar>>(format.error());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    Json out{{"compile_ms", took.count()}};
    if (!grammar.ok()) {
      out["error"] = grammar.error().message;
      out["param"] = grammar.error().param;
      out["code"] = static_cast<int>(grammar.error().code);
      return out;
    }
    out["states"] = (*grammar)->state_count();
    const auto masks = std::make_shared<GrammarMasks>(*grammar, trie_);
    out["walks"] = Json::array();
    for (int i = 0; i < request.value("walks", 0); ++i)
      out["walks"].push_back(walk(masks, request.value("seed", 0) * 1000 + i, request.value("tokens", 200)));
    out["accept"] = Json::array();
    for (const Json& text : request.value("accept", Json::array())) {
      Stacks stacks(**grammar);
      stacks.start();
      out["accept"].push_back(stacks.read(text.get<std::string>()) && stacks.reading().complete);
    }
    return out;
  }

 private:
  /// Behind `limit` tokens the walk takes what ends soonest, so that it comes to an end.
  Json walk(const std::shared_ptr<GrammarMasks>& masks, int seed, int limit) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    GrammarConstraint constraint(masks, tokenizer_);
    const int32_t vocab = tokenizer_->vocab_size();
    std::vector<uint32_t> mask((static_cast<size_t>(vocab) + 31) / 32);
    std::string text;
    int step = 0;
    for (; step < 4 * limit && !constraint.ended(); ++step) {
      std::fill(mask.begin(), mask.end(), UINT32_MAX);
      constraint.narrow(mask);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < vocab; ++id)
        if (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) allowed.push_back(id);
      if (allowed.empty()) return {{"text", text}, {"ended", false}, {"stuck", true}, {"tokens", step}};
      const int32_t token = step < limit ? allowed[random() % allowed.size()] : ending(allowed, inside_string(text), random);
      // A draft behind it that is taken back must change nothing.
      constraint.accept(token);
      constraint.accept(allowed[random() % allowed.size()]);
      constraint.rollback(2);
      constraint.accept(token);
      if (!trie_->is_end(token)) text += tokenizer_->token_bytes(token);
    }
    return {{"text", text}, {"ended", constraint.ended()}, {"stuck", false}, {"tokens", step}};
  }

  static bool inside_string(const std::string& text) {
    bool inside = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') ++i;
      else if (text[i] == '"') inside = !inside;
    }
    return inside;
  }

  int32_t ending(const std::vector<int32_t>& allowed, bool in_string, std::mt19937& random) const {
    int32_t best = allowed[random() % allowed.size()];
    size_t best_rank = 100;
    for (const int32_t id : allowed) {
      const std::string_view bytes = tokenizer_->token_bytes(id);
      const std::string_view kOrder = in_string ? "\":}]" : "}]\",>:";
      size_t rank = trie_->is_end(id) ? 0 : 100;
      if (rank != 0 && bytes.size() == 1 && kOrder.find(bytes[0]) != std::string_view::npos) rank = 1 + kOrder.find(bytes[0]);
      if (rank < best_rank) best_rank = rank, best = id;
    }
    return best;
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<const TokenTrie> trie_;
};

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: grammar MODEL < requests\n");
    return 2;
  }
  const auto tokenizer = open_tokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  Session session(*tokenizer);
  std::string line;
  while (std::getline(std::cin, line))
    std::cout << session.answer(Json::parse(line)).dump(-1, ' ', true, Json::error_handler_t::replace) << '\n' << std::flush;
  return 0;
}

}  // namespace
}  // namespace slipstream::grammar

int main(int argc, char** argv) { return slipstream::grammar::run(argc, argv); }
