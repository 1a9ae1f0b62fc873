// The cache of grammars: equal descriptions are compiled once, bytes are bounded.
#include "engine/grammar/grammar_cache.h"

#include <thread>

#include "tests/unit/grammar/grammar_fixture.h"
#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;
using grammar::GrammarCache;

TEST_CASE("equal descriptions have equal keys, others not") {
  CHECK(Format::regex("a", "x").key() == Format::regex("a", "y").key());
  const std::vector<Format> all{Format::regex("a"), Format::ebnf("a"), Format::literal("a"), Format::literal("ab"), Format::choice({"a"}),
                                Format::choice({"a", "b"}), Format::choice({"ab"}), Format::free_text(), Format::free_text({"a"}),
                                Format::special_token(1), Format::special_token(11), Format::json_schema("a"), Format::json_object(),
                                Format::json_schema("a", {}, {grammar::Whitespace::Kind::kFixed, {}}), Format::xml_parameters("a"),
                                Format::repeat(Format::literal("a"), 0, 1), Format::repeat(Format::literal("a"), 0, -1),
                                Format::sequence({Format::literal("a"), Format::literal("")})};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(all[i].key() != all[j].key());
}

TEST_CASE("a description is compiled once, however many ask") {
  GrammarCache cache(loaded(byte_level({})));
  std::vector<std::thread> threads;
  std::vector<bool> fine(4, false);
  for (size_t i = 0; i < fine.size(); ++i) threads.emplace_back([&, i] {
    const auto spec = cache.constraint(Format::json_schema(R"({"type":"object"})"));
    const bool started = spec.ok() && (*spec)->start() != nullptr;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    fine[i] = started;
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(fine == std::vector<bool>(4, true));
  CHECK(cache.stats().compiles == 1);
  CHECK(cache.stats().hits == 3);
  CHECK(cache.stats().entries == 1);
  CHECK(cache.stats().bytes > 0);
}

TEST_CASE("errors are not kept and name the param of who asks") {
  GrammarCache cache(loaded(byte_level({})));
  for (const char* param : {"guided_regex", "structured_outputs.regex"}) {
    const auto spec = cache.constraint(Format::regex("(", param));
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().param == param);
  }
  CHECK(cache.stats().entries == 0);
  CHECK(cache.stats().compiles == 2);
}

TEST_CASE("the oldest go when the bytes are full; those in use live on") {
  GrammarCache cache(loaded(byte_level({})), 1);
  const auto first = cache.constraint(Format::regex("a"));
  const auto second = cache.constraint(Format::regex("b"));
  CHECK(cache.stats().entries == 1);
  CHECK((*first)->start() != nullptr);
  CHECK(cache.constraint(Format::regex("a")).ok());
  CHECK(cache.stats().compiles == 3);
}
