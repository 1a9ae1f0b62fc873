// The constraint over a vocabulary: its masks against a slow twin that reads every token alone, rollback, forced tokens,
// the end.
#include "engine/grammar/grammar_constraint.h"

#include <random>

#include "tests/unit/grammar/grammar_fixture.h"
#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

/// Bytes, and pieces that cross the ends of JSON's parts. ("<|start|>" is control, "<think>" text, "<|end|>" ends.)
std::shared_ptr<const Tokenizer> vocabulary() {
  std::vector<std::pair<std::string, std::string>> merges;
  const std::vector<std::string> pieces{"{\"", "\":", "\",", "\"}", "},", "]}", "[\"", "\"]", "name", "true", "null", "12",
                                        "34", " \"", ": ", ", ", "a\",\"", "\":\"", "\"}]", "\n  \"", "\xC3\xA9", "ab", "<f="};
  for (const std::string& piece : pieces)  // left to right: each prefix is a token
    for (size_t i = 1; i < piece.size(); ++i) {
      const std::pair<std::string, std::string> merge{piece.substr(0, i), piece.substr(i, 1)};
      if (std::find(merges.begin(), merges.end(), merge) == merges.end()) merges.push_back(merge);
    }
  return loaded(byte_level(merges));
}

struct Bound {
  std::shared_ptr<const Tokenizer> tokenizer = vocabulary();
  std::shared_ptr<const grammar::TokenTrie> trie = std::make_shared<const grammar::TokenTrie>(*tokenizer);
  std::shared_ptr<grammar::GrammarMasks> masks;

  explicit Bound(const Format& format) : masks(std::make_shared<grammar::GrammarMasks>(compiled(format), trie)) {}
  grammar::GrammarConstraint start() const { return grammar::GrammarConstraint(masks, tokenizer); }
  size_t words() const { return (static_cast<size_t>(tokenizer->vocab_size()) + 31) / 32; }
  std::vector<int32_t> allowed(grammar::GrammarConstraint& constraint) const {
    std::vector<uint32_t> mask(words() + 1, UINT32_MAX);
    constraint.narrow(mask);
    CHECK(mask.back() == 0);  // ids beyond the vocabulary
    std::vector<int32_t> out;
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
      if (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) out.push_back(id);
    return out;
  }
  /// What reading each token alone allows.
  std::vector<int32_t> twin(const std::vector<int32_t>& text) const {
    std::vector<int32_t> out;
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      grammar::Stacks stacks(masks->grammar());
      REQUIRE(stacks.start());
      for (const int32_t token : text) REQUIRE((stacks.read_token(token) || stacks.read(tokenizer->token_bytes(token))));
      if (trie->is_end(id) ? stacks.reading().complete
                           : stacks.read_token(id) || (!tokenizer->is_special(id) && stacks.read(tokenizer->token_bytes(id))))
        out.push_back(id);
    }
    return out;
  }
};

/// Walks from behind `start`. Only bounds (of depth, of readings) can lead to a dead end.
void check_walks(const Format& format, int walks, const std::string& start = {}, bool bounded = false) {
  const Bound bound(format);
  std::mt19937 random(7);
  for (int walk = 0; walk < walks; ++walk) {
    auto constraint = bound.start();
    std::vector<int32_t> text = ids(*bound.tokenizer, start);
    for (const int32_t token : text) constraint.accept(token);
    for (int step = 0; step < 25 && !constraint.ended(); ++step) {
      const std::vector<int32_t> allowed = bound.allowed(constraint);
      REQUIRE(allowed == bound.twin(text));
      if (bounded && allowed.empty()) break;
      REQUIRE_FALSE(allowed.empty());
      const int32_t token = allowed[random() % allowed.size()];
      if (bound.trie->is_end(token)) break;
      constraint.accept(token);
      text.push_back(token);
    }
    CHECK(!text.empty());
  }
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

void accept(const Bound& bound, grammar::GrammarConstraint& constraint, std::string_view text) {
  for (const int32_t id : ids(*bound.tokenizer, text)) constraint.accept(id);
}

}  // namespace

TEST_CASE("masks equal what reading every token alone allows") {
  check_walks(Format::json_object(), 12);
  check_walks(Format::json_schema(R"({"properties":{"name":{"type":"string"},"n":{"type":"array","items":{"enum":["ab",12,true]}}},"required":["n"]})"), 12);
  check_walks(Format::json_schema(R"({"type":"string","minLength":1,"maxLength":300})"), 4);  // more than 2048 states: classes
  check_walks(Format::json_schema(R"({"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"string"},{"const":"ab"}]})"), 12);
  check_walks(Format::ebnf("root ::= item (\",\" item)*\nitem ::= [a-z]+ | \"{\" root \"}\" | \"\""), 8);
  const auto tags = grammar::triggered_tags({"<f="}, {{Format::literal("<f=a>"), Format::json_object(), Format::literal("</f>")},
                                                      {Format::special_token(kStart), Format::regex("[ab]*"), Format::special_token(kEnd + 1)}}, {});
  REQUIRE(tags.ok());
  check_walks(*tags, 8);
}

TEST_CASE("masks refuse what the bounds on depth and readings refuse") {
  check_walks(Format::ebnf("root ::= \"[\" root \"]\" | \"\\\"\""), 3, std::string(limits::kGrammarStackDepth - 4, '['), true);
  check_walks(Format::json_object(), 2, repeated("{\"name\":", 60));
  const Format ambiguous = Format::ebnf("root ::= x\nx ::= \"a\" x \"\" | \"a\" x x \"b\"? | \"ab\" x y | \"a\"\ny ::= \"\" | \"b\" y | \"b\" x");
  check_walks(ambiguous, 6, {}, true);
  check_walks(ambiguous, 4, "aa", true);
}

TEST_CASE("control tokens match no text; end tokens come when the output is complete") {
  const Bound bound(Format::regex("<.{1,20}>|a+"));
  auto constraint = bound.start();
  auto allowed = bound.allowed(constraint);
  CHECK(std::count(allowed.begin(), allowed.end(), kThink) == 1);
  CHECK(std::count(allowed.begin(), allowed.end(), kStart) == 0);
  CHECK(std::count(allowed.begin(), allowed.end(), kEnd) == 0);
  constraint.accept(kFirstByte + 'a');
  allowed = bound.allowed(constraint);
  CHECK(allowed == std::vector<int32_t>{kEnd, kFirstByte + 'a'});
  CHECK_FALSE(constraint.ended());
  constraint.accept(kEnd);
  CHECK(constraint.ended());
  CHECK(bound.allowed(constraint).empty());
}

TEST_CASE("an output that is complete and cannot go on has ended without an end token") {
  const Bound bound(Format::choice({"ab", "b"}));
  auto constraint = bound.start();
  constraint.accept(kFirstByte + 'b');
  CHECK(constraint.ended());
  CHECK(bound.allowed(constraint) == std::vector<int32_t>{kEnd});
}

TEST_CASE("a refused token leaves nothing, and can be taken back") {
  const Bound bound(Format::choice({"abc"}));
  auto constraint = bound.start();
  const auto before = bound.allowed(constraint);
  constraint.accept(kFirstByte + 'x');
  CHECK(bound.allowed(constraint).empty());
  CHECK_FALSE(constraint.ended());
  constraint.accept(kFirstByte + 'a');
  CHECK(bound.allowed(constraint).empty());
  constraint.rollback(2);
  CHECK(bound.allowed(constraint) == before);
}

TEST_CASE("64 tokens can be taken back") {
  const Bound bound(Format::json_object());
  auto constraint = bound.start();
  accept(bound, constraint, "{\"name\": [");
  std::vector<std::vector<int32_t>> seen;
  for (int i = 0; i < limits::kGrammarRollbackTokens; ++i) {
    seen.push_back(bound.allowed(constraint));
    constraint.accept(kFirstByte + '[');
  }
  for (int i = limits::kGrammarRollbackTokens; i-- > 0;) {
    constraint.rollback(1);
    CHECK(bound.allowed(constraint) == seen[static_cast<size_t>(i)]);
  }
}

TEST_CASE("forced tokens spell what must come, and stop where a longer token could") {
  const Bound bound(Format::json_schema(R"({"properties":{"name":{"type":"string"}},"required":["name"]})", {}, {grammar::Whitespace::Kind::kFixed, {}}));
  auto constraint = bound.start();
  std::vector<int32_t> tokens;
  constraint.forced(16, &tokens);
  std::string text;
  for (const int32_t id : tokens) text += bound.tokenizer->token_bytes(id);
  CHECK(std::string("{\"name\": \"").starts_with(text));
  CHECK(text.size() >= 6);
  for (const int32_t id : tokens) {
    const auto allowed = bound.allowed(constraint);
    CHECK(std::find(allowed.begin(), allowed.end(), id) != allowed.end());
    constraint.accept(id);
  }
  std::vector<int32_t> few;
  auto again = bound.start();
  again.forced(1, &few);
  CHECK(few == std::vector<int32_t>{tokens[0]});
  // Where two bytes may come, nothing is forced.
  const Bound free(Format::regex("[ab]cd"));
  auto open = free.start();
  std::vector<int32_t> none;
  open.forced(8, &none);
  CHECK(none.empty());
  open.accept(kFirstByte + 'a');
  open.forced(8, &none);
  std::string rest;
  for (const int32_t id : none) rest += free.tokenizer->token_bytes(id);
  CHECK(rest == "cd");
}
