// Hostile descriptions end in an error that says why, soon; what compiles costs bounded work while it is matched.
#include <chrono>

#include "engine/grammar/grammar_constraint.h"
#include "tests/unit/grammar/grammar_fixture.h"
#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("counted repetitions in each other") {
  CHECK(contains(refusal(Format::regex("((((a{100}){100}){100}){100})")), "automaton states"));
  CHECK(contains(refusal(Format::regex("((((){1000}){1000}){1000}){1000}")), "automaton states"));
  CHECK(contains(refusal(Format::regex("a{1000000000}")), "larger than 10000"));
  CHECK(contains(refusal(Format::regex("a{99999999999999999999}")), "larger than 10000"));
  // Large rules are called, not copied: a billion letters are three thousand states.
  CHECK(compiled(Format::ebnf("root ::= a{1000}\na ::= b{1000}\nb ::= \"x\"{1000}"))->state_count() < 4'000);
}

TEST_CASE("automata that would grow exponentially", "[time]") {
  CHECK(contains(refusal(Format::regex("(a|b)*a(a|b){30}")), "automaton"));
  CHECK(contains(refusal(Format::json_schema(R"({"type":"string","pattern":"a.{40}b"})")), "automaton"));
  CHECK(contains(refusal(Format::regex(repeated("(", 40) + "a" + repeated(")*", 40))), "nest deeper than 32"));
  CHECK(accepts(compiled(Format::regex(repeated("(", 30) + "a" + repeated(")*", 30))), "aaa"));
  CHECK(accepts(compiled(Format::regex("(a|a)*(a|a)*(a|aa)*b")), "aaaab"));
}

TEST_CASE("deep schemas, many combinations, large sources") {
  CHECK(contains(refusal(Format::json_schema(repeated("{\"items\":", 100) + "{}" + repeated("}", 100))), "nests deeper than 32"));
  CHECK(contains(refusal(Format::json_schema(repeated("[", 100'000))), "source"));
  CHECK(contains(refusal(Format::json_schema(repeated("[", 60'000))), "nests deeper"));
  std::string any = "{\"allOf\":[";
  for (int i = 0; i < 20; ++i) any += std::string(i ? "," : "") + R"({"anyOf":[{"minLength":)" + std::to_string(i) + R"(},{"maxLength":)" + std::to_string(100 + i) + "}]}";
  CHECK(contains(refusal(Format::json_schema(any + "]}")), "combinations of anyOf"));
  std::vector<std::string> many;
  for (int i = 0; i < 100'000; ++i) many.push_back(std::to_string(i));
  CHECK(contains(refusal(Format::choice(many, "structured_outputs.choice")), "structured_outputs.choice: the grammar has more than 65536 bytes"));
}

TEST_CASE("a grammar of many rules in a chain neither overflows the stack nor takes long") {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 3'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  CHECK(accepts(compiled(Format::ebnf(chain + "r3000 ::= \"x\"")), "x"));
  std::string doubled = "root ::= r0 r0\n";
  for (int i = 0; i < 60; ++i) doubled += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" + std::to_string(i + 1) + "\n";
  CHECK(contains(refusal(Format::ebnf(doubled + "r60 ::= \"\" | root")), "left recursion"));
}

TEST_CASE("a time budget ends any compilation") {
  const auto result = grammar::compile(Format::regex("(a|b)*a(a|b){16}(c|d)*c(c|d){15}"), std::chrono::milliseconds(1));
  REQUIRE_FALSE(result.ok());
  CHECK(contains(result.error().message, "took more than 1 ms"));
}

TEST_CASE("ambiguous grammars: readings are bounded, masks cost bounded work") {
  // Every split of a text of n letters is a reading.
  const auto grammar = compiled(Format::ebnf("root ::= x\nx ::= \"a\" x \"\" | \"a\" x x \"b\"? | \"a\""));
  const auto tokenizer = loaded(byte_level({{"a", "a"}, {"aa", "a"}, {"aaa", "a"}}));
  const auto trie = std::make_shared<const grammar::TokenTrie>(*tokenizer);
  grammar::GrammarConstraint constraint(std::make_shared<grammar::GrammarMasks>(grammar, trie), tokenizer);
  std::vector<uint32_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 31) / 32);
  for (int i = 0; i < 400; ++i) {
    std::fill(mask.begin(), mask.end(), UINT32_MAX);
    constraint.narrow(mask);
    constraint.accept(kFirstByte + 'a');
  }
  SUCCEED("came to an end");
}
