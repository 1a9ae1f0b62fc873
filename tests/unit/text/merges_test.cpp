// The two merge loops against each other and against BPE's definition on strings.
#include "engine/text/merges.h"

#include <map>

#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using test::Random;

namespace {

std::vector<int32_t> ids_of(const std::vector<Symbol>& symbols) {
  std::vector<int32_t> out;
  for (const Symbol& symbol : symbols) out.push_back(symbol.id);
  return out;
}

/// A random table over the letters 0..letters-1; results are new ids. With `equal_ranks` many pairs share a rank.
struct Law {
  MergeTable table;
  std::map<std::pair<int32_t, int32_t>, MergeTable::Merge> plain;
};
Law random_law(Random& random, int32_t letters, int count, bool equal_ranks) {
  Law law;
  int32_t next = letters;
  for (int i = 0; i < count; ++i) {
    const auto left = static_cast<int32_t>(random.below(static_cast<uint32_t>(next)));
    const auto right = static_cast<int32_t>(random.below(static_cast<uint32_t>(next)));
    // Ranks in random order: a later token may join before an earlier one.
    const uint32_t rank = equal_ranks ? random.below(3) : random.below(1000) * 1000 + static_cast<uint32_t>(i);
    if (law.table.add(left, right, rank, next)) law.plain[{left, right}] = {rank, next++};
  }
  return law;
}

std::vector<int32_t> by_definition(const Law& law, std::vector<int32_t> word) {
  for (;;) {
    size_t best = word.size();
    uint32_t rank = MergeTable::kNever;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = law.plain.find({word[i], word[i + 1]});
      if (found != law.plain.end() && found->second.rank < rank) {
        rank = found->second.rank;
        best = i;
      }
    }
    if (best == word.size()) return word;
    word[best] = law.plain.at({word[best], word[best + 1]}).result;
    word.erase(word.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("both merge loops give what BPE's definition gives") {
  Random random(7);
  size_t merged = 0;
  for (int round = 0; round < 400; ++round) {
    const auto letters = static_cast<int32_t>(1 + random.below(4));
    const Law law = random_law(random, letters, 40, round % 3 == 0);
    const size_t length = random.below(200);
    std::vector<Symbol> few;
    std::vector<int32_t> word;
    for (size_t i = 0; i < length; ++i) {
      const bool unknown = random.below(30) == 0;
      word.push_back(unknown ? -1 : static_cast<int32_t>(random.below(static_cast<uint32_t>(letters))));
      few.push_back({word.back(), static_cast<uint32_t>(i)});
    }
    std::vector<Symbol> many = few;
    merge_few(law.table, &few);
    merge_many(law.table, &many);
    const std::vector<int32_t> expected = by_definition(law, word);
    REQUIRE(ids_of(few) == expected);
    REQUIRE(ids_of(many) == expected);
    for (size_t i = 0; i < few.size(); ++i) REQUIRE(few[i].begin == many[i].begin);
    merged += length - expected.size();
  }
  CHECK(merged > 10'000);
}

TEST_CASE("the first of two equal merges stays, and the table grows") {
  MergeTable table;
  CHECK(table.add(1, 2, 5, 9));
  CHECK_FALSE(table.add(1, 2, 1, 8));
  for (int32_t i = 0; i < 10'000; ++i) REQUIRE(table.add(i, i + 7, static_cast<uint32_t>(i), i + 1));
  CHECK(table.size() == 10'001);
  CHECK(table.find(1, 2).result == 9);
  CHECK(table.find(9'999, 10'006).rank == 9'999);
  CHECK(table.find(9'999, 10'005).rank == MergeTable::kNever);
  CHECK(table.find(-1, 2).rank == MergeTable::kNever);
}
