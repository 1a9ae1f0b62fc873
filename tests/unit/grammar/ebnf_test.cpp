// Grammars as text.
#include "tests/unit/grammar/grammar_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

TEST_CASE("rules, alternatives, groups and quantifiers") {
  const auto grammar = compiled(Format::ebnf(R"g(
# sums of numbers in brackets
root  ::= sum
sum   ::= term (ws [+-] ws term)*
term  ::= number | "(" ws sum ws ")"
number ::= "-"? [0-9]{1,3}
  ("." [0-9]+)?
ws ::= " "?
)g"));
  for (const char* text : {"1", "1+2", "-12 - 3.50", "((1)+2)", "( 7 )+( 8 )"}) CHECK(accepts(grammar, text));
  for (const char* text : {"", "1+", "1234", "(1", "1)", "1.", "1  +2"}) CHECK_FALSE(accepts(grammar, text));
}

TEST_CASE("recursion to any depth within the bounds of the stack") {
  const auto grammar = compiled(Format::ebnf("root ::= \"a\" root \"b\" | \"\""));
  CHECK(accepts(grammar, ""));
  CHECK(accepts(grammar, "aaabbb"));
  CHECK_FALSE(accepts(grammar, "aabbb"));
  CHECK_FALSE(accepts(grammar, "aaabb"));
  const std::string most(limits::kGrammarStackDepth, 'a');
  CHECK(accepts(grammar, most + std::string(most.size(), 'b')));
  CHECK_FALSE(accepts(grammar, most + "aa" + std::string(most.size() + 2, 'b')));
  // Nothing follows the call: no stack is needed.
  CHECK(accepts(compiled(Format::ebnf("root ::= \"a\" root | \"b\"")), std::string(10'000, 'a') + "b"));
}

TEST_CASE("literals and their escapes") {
  const auto grammar = compiled(Format::ebnf(R"(root ::= "\"\\\n\x41\u00e9\U0001F642" [^"\\\x7F\x00-\x1F] .)"));
  CHECK(accepts(grammar, "\"\\\nA\xC3\xA9\xF0\x9F\x99\x82" "z\n"));
  CHECK_FALSE(accepts(grammar, "\"\\\nA\xC3\xA9\xF0\x9F\x99\x82" "\"z"));
}

TEST_CASE("rules without text lead nowhere") {
  const auto grammar = compiled(Format::ebnf("root ::= \"a\" | \"b\" endless\nendless ::= \"c\" endless"));
  CHECK(accepts(grammar, "a"));
  CHECK_FALSE(accepts(grammar, "b"));
  grammar::Stacks stacks(*grammar);
  REQUIRE(stacks.start());
  CHECK_FALSE(stacks.read("b"));
  CHECK(contains(refusal(Format::ebnf("root ::= \"c\" root")), "matches no text"));
}

TEST_CASE("faults of a grammar") {
  CHECK(contains(refusal(Format::ebnf("a ::= \"x\"", "grammar")), "grammar: grammar: there is no rule \"root\""));
  CHECK(contains(refusal(Format::ebnf("root ::= x")), "\"x\" is used but not defined"));
  CHECK(contains(refusal(Format::ebnf("root ::= \"a\"\nroot ::= \"b\"")), "defined twice"));
  CHECK(contains(refusal(Format::ebnf("root ::= root \"a\" | \"a\"")), "left recursion"));
  CHECK(contains(refusal(Format::ebnf("root ::= x? y\nx ::= \"x\"\ny ::= root | \"y\"")), "left recursion"));
  CHECK(contains(refusal(Format::ebnf("root ::= \"a")), "not closed by \""));
  CHECK(contains(refusal(Format::ebnf("root ::= (\"a\"")), "not closed by )"));
  CHECK(contains(refusal(Format::ebnf("root ::= \"a\"**")), "a quantifier follows"));
  CHECK(contains(refusal(Format::ebnf("root ::= (= \"a\")")), "look-ahead"));
  CHECK(contains(refusal(Format::ebnf("root = \"a\"")), "expected a rule"));
}
