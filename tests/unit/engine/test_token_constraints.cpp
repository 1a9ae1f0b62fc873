#include <random>

#include "engine/sample/after_reasoning.h"
#include "engine/sample/all_of.h"
#include "engine/sample/allowed_tokens.h"
#include "engine/sample/bad_words.h"
#include "engine/sample/reasoning_budget.h"
#include "engine/sample/row_masks.h"
#include "tests/sim/automaton_constraint.h"
#include "tests/catch.h"  // last: its CHECK replaces ours

using namespace slipstream;
using namespace slipstream::sim;

namespace {

constexpr int32_t kVocab = 40;
using Ids = std::vector<int32_t>;
using Spec = std::shared_ptr<const ConstraintSpec>;

/// Ids that may come next; all of them where narrow says that it clears none.
Ids allowed(TokenConstraint& constraint) {
  std::vector<uint32_t> mask((kVocab + 31) / 32, ~0u);
  const bool narrowed = constraint.narrow(mask);
  Ids ids;
  for (int32_t id = 0; id < kVocab; ++id)
    if (!narrowed || ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1u)) ids.push_back(id);
  return ids;
}
Ids forced(TokenConstraint& constraint, int32_t limit) {
  Ids ids{-7};  // what is there already stays
  constraint.forced(limit, &ids);
  REQUIRE(ids[0] == -7);
  ids.erase(ids.begin());
  return ids;
}
Ids all_but(const Ids& without) {
  Ids ids;
  for (int32_t id = 0; id < kVocab; ++id)
    if (std::ranges::find(without, id) == without.end()) ids.push_back(id);
  return ids;
}
Spec automaton(uint64_t seed) { return std::make_shared<const AutomatonSpec>(Automaton::Shape{seed, kVocab, 39, true, true}); }

}  // namespace

TEST_CASE("only the allowed tokens, wherever the vocabulary ends") {
  const Ids ids{33, 2, 2, 31};
  const auto constraint = AllowedTokens(ids).start();
  REQUIRE(allowed(*constraint) == Ids{2, 31, 33});
  constraint->accept(5);
  REQUIRE(allowed(*constraint) == Ids{2, 31, 33});
  REQUIRE_FALSE(constraint->ended());
  std::vector<uint32_t> narrow_mask{0x4u | 0x8u}, wide(4, ~0u);
  REQUIRE(constraint->narrow(narrow_mask));
  REQUIRE(narrow_mask[0] == 0x4u);  // bits that were clear stay so
  REQUIRE(constraint->narrow(wide));
  REQUIRE(wide == std::vector<uint32_t>{0x80000004u, 0x2u, 0, 0});
  REQUIRE(allowed(*AllowedTokens({}).start()).empty());
}

TEST_CASE("a bad word is refused at its last token, and only where its others came right before") {
  const auto constraint = BadWords({{4}, {1, 2, 3}, {2, 3}, {5, 5}, {}, {1, 9, 3}}).start();
  REQUIRE(allowed(*constraint) == all_but({4}));
  constraint->accept(1);
  REQUIRE(allowed(*constraint) == all_but({4}));
  constraint->accept(2);
  REQUIRE(allowed(*constraint) == all_but({4, 3}));
  constraint->rollback(1);
  REQUIRE(allowed(*constraint) == all_but({4}));
  constraint->accept(9);
  REQUIRE(allowed(*constraint) == all_but({4, 3}));
  constraint->accept(5);
  REQUIRE(allowed(*constraint) == all_but({4, 5}));
  REQUIRE_FALSE(constraint->ended());
  // "False when this one clears none."
  const auto single = BadWords({{1, 2}}).start();
  std::vector<uint32_t> mask(2, ~0u), without_two{~0x4u, ~0u};
  REQUIRE_FALSE(single->narrow(mask));
  single->accept(1);
  REQUIRE_FALSE(single->narrow(without_two));
  REQUIRE(single->narrow(mask));
}

TEST_CASE("a spent budget of reasoning forces the sequence that ends it") {
  const auto constraint = ReasoningBudget({3, {30}, {31, 32}, true}).start();
  for (int32_t i = 0; i < 3; ++i) {
    REQUIRE(allowed(*constraint) == all_but({}));
    REQUIRE(forced(*constraint, 9).empty());
    constraint->accept(7);
  }
  REQUIRE(allowed(*constraint) == Ids{31});
  REQUIRE(forced(*constraint, 9) == Ids{31, 32});
  REQUIRE(forced(*constraint, 1) == Ids{31});
  constraint->accept(31);
  REQUIRE(allowed(*constraint) == Ids{32});
  REQUIRE(forced(*constraint, 9) == Ids{32});
  constraint->accept(32);
  REQUIRE(allowed(*constraint) == all_but({}));
  constraint->rollback(2);
  REQUIRE(allowed(*constraint) == Ids{31});
  constraint->accept(31);
  constraint->accept(32);
  // Outside nothing is counted; opened again, nothing is left.
  for (int32_t i = 0; i < 9; ++i) constraint->accept(7);
  REQUIRE(allowed(*constraint) == all_but({}));
  constraint->accept(30);
  REQUIRE(allowed(*constraint) == Ids{31});
}

TEST_CASE("a budget that runs out within the ending sequence goes on with it") {
  const auto constraint = ReasoningBudget({3, {}, {31, 31, 32}, true}).start();
  constraint->accept(7);
  constraint->accept(31);
  constraint->accept(31);
  REQUIRE(allowed(*constraint) == Ids{32});
  constraint->rollback(1);
  constraint->accept(7);  // the ending broke off
  REQUIRE(forced(*constraint, 9) == Ids{31, 31, 32});
  // Ended by itself in time: free from there on. 31 31 31 32 ends too, since the last three are the sequence.
  const auto in_time = ReasoningBudget({5, {}, {31, 31, 32}, true}).start();
  for (const int32_t token : {31, 31, 31, 32, 1, 2, 3}) in_time->accept(token);
  REQUIRE(allowed(*in_time) == all_but({}));
}

TEST_CASE("a budget of nothing, and reasoning that the model opens itself") {
  REQUIRE(allowed(*ReasoningBudget({0, {30}, {31}, true}).start()) == Ids{31});
  const auto constraint = ReasoningBudget({1, {29, 30}, {31}, false}).start();
  for (const int32_t token : {30, 29, 29}) {
    constraint->accept(token);
    REQUIRE(allowed(*constraint) == all_but({}));
  }
  constraint->accept(30);
  REQUIRE(allowed(*constraint) == all_but({}));
  constraint->accept(8);
  REQUIRE(allowed(*constraint) == Ids{31});
}

TEST_CASE("a constraint behind the reasoning begins with the token after its end") {
  const Ids only{1, 2};
  const auto inner = std::make_shared<const AllowedTokens>(only);
  using Begin = AfterReasoning::Begin;
  const auto inside = AfterReasoning(inner, {Begin::kInside, -1, {30, 31}}).start();
  for (const int32_t token : {5, 30, 30, 31}) {
    REQUIRE(allowed(*inside) == all_but({}));
    inside->accept(token);
  }
  REQUIRE(allowed(*inside) == only);
  inside->accept(1);
  inside->rollback(2);
  REQUIRE(allowed(*inside) == all_but({}));
  inside->accept(31);
  REQUIRE(allowed(*inside) == only);

  REQUIRE(allowed(*AfterReasoning(inner, {Begin::kOutside, -1, {}}).start()) == only);

  const auto may_open = AfterReasoning(inner, {Begin::kMayOpen, 29, {30}}).start();
  REQUIRE(allowed(*may_open) == Ids{1, 2, 29});
  may_open->accept(29);
  REQUIRE(allowed(*may_open) == all_but({}));
  may_open->rollback(1);
  may_open->accept(2);
  REQUIRE(allowed(*may_open) == only);  // no reasoning behind the first token of the response
  may_open->rollback(1);
  REQUIRE(allowed(*may_open) == Ids{1, 2, 29});
}

TEST_CASE("all of several: the intersection, the certain one's tokens, the first end") {
  const Ids first{1, 2, 31}, second{2, 3, 31};
  const Spec budget = std::make_shared<const ReasoningBudget>(ReasoningBudget::Rules{1, {}, {31, 2}, true});
  const Spec both = all_of({std::make_shared<const AllowedTokens>(first), nullptr, std::make_shared<const AllowedTokens>(second), budget});
  const auto constraint = both->start();
  REQUIRE(allowed(*constraint) == Ids{2, 31});
  constraint->accept(2);
  REQUIRE(allowed(*constraint) == Ids{31});
  REQUIRE(forced(*constraint, 9) == Ids{31, 2});
  REQUIRE(all_of({nullptr, nullptr}) == nullptr);
  REQUIRE(all_of({nullptr, budget}) == budget);
  // Over when one is: an automaton walked to its end beside one without an end.
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto alone = automaton(seed)->start(), beside = all_of({automaton(seed), std::make_shared<const BadWords>(std::vector<Ids>{})})->start();
    for (int32_t i = 0; i < 40; ++i) {
      REQUIRE(beside->ended() == alone->ended());
      const Ids ids = allowed(*alone);
      if (alone->ended() || ids.empty()) break;
      alone->accept(ids[seed % ids.size()]);
      beside->accept(ids[seed % ids.size()]);
    }
  }
}

TEST_CASE("taken back and accepted again in any order, every constraint stands where its tokens say") {
  using Begin = AfterReasoning::Begin;
  std::mt19937 random(5);
  const auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::vector<Spec> specs{
        std::make_shared<const BadWords>(std::vector<Ids>{{1, 2}, {2, 1, 1}, {3}, {0, 0, 0}}),
        std::make_shared<const ReasoningBudget>(ReasoningBudget::Rules{pick(0, 12), {1, 0}, {0, 1}, seed % 2 == 0}),
        std::make_shared<const AfterReasoning>(automaton(seed), AfterReasoning::Rules{seed % 2 == 0 ? Begin::kInside : Begin::kMayOpen, 2, {0, 1}}),
        all_of({automaton(seed), std::make_shared<const AfterReasoning>(automaton(seed + 1), AfterReasoning::Rules{Begin::kInside, -1, {1, 0, 1}}),
                std::make_shared<const BadWords>(std::vector<Ids>{{1, 2}})}),
    };
    for (const Spec& spec : specs) {
      const auto constraint = spec->start();
      Ids tokens;
      int32_t most_back = 0;  // of the tokens accepted since something was taken back last
      for (int32_t turn = 0; turn < 60; ++turn) {
        const int32_t more = pick(0, 9);
        for (int32_t i = 0; i < more; ++i) {
          tokens.push_back(pick(0, 3));
          constraint->accept(tokens.back());
        }
        most_back = std::min(most_back + more, 32);
        const int32_t back = pick(0, most_back);
        constraint->rollback(back);
        tokens.resize(tokens.size() - static_cast<size_t>(back));
        most_back -= back;
        const auto fresh = spec->start();
        for (const int32_t token : tokens) fresh->accept(token);
        REQUIRE(allowed(*constraint) == allowed(*fresh));
        REQUIRE(forced(*constraint, 20) == forced(*fresh, 20));
        REQUIRE(constraint->ended() == fresh->ended());
        ++compared;
      }
    }
  }
  REQUIRE(compared == 60 * 4 * 60);
}

TEST_CASE("masks of a span follow its drafts as far as they are lawful, and the state stands where it stood") {
  const auto constraint = BadWords({{1, 2}, {3, 4}}).start();
  std::vector<std::vector<uint32_t>> rows(4);
  const Ids drafts{1, 3, 4}, stop_ids{9};
  // Row 0 free, row 1 without 2, row 2 without 4, which refuses the third draft: row 3 is never looked at.
  REQUIRE(mask_rows(*constraint, {drafts, stop_ids, 0, kVocab}, rows) == 4);
  REQUIRE(rows[0].empty());
  REQUIRE(rows[1] == std::vector<uint32_t>{~0x4u, 0xffu});
  REQUIRE(rows[2] == std::vector<uint32_t>{~0x10u, 0xffu});
  REQUIRE(rows[3].empty());
  REQUIRE(allowed(*constraint) == all_but({}));

  // More rows than drafts, and a stop id among the drafts: what is behind stays empty.
  rows.assign(4, {});
  REQUIRE(mask_rows(*constraint, {Ids{1}, stop_ids, 0, kVocab}, rows) == 4);
  REQUIRE(rows[1] == std::vector<uint32_t>{~0x4u, 0xffu});
  REQUIRE(rows[2].empty());
  rows.assign(4, {});
  REQUIRE(mask_rows(*constraint, {Ids{9, 1, 2}, stop_ids, 0, kVocab}, rows) == 4);
  for (const auto& row : rows) REQUIRE(row.empty());

  // Before min_tokens the stop id goes, in the rows that come before it.
  rows.assign(3, {});
  REQUIRE(mask_rows(*constraint, {Ids{1, 5}, stop_ids, 2, kVocab}, rows) == 3);
  REQUIRE(rows[0] == std::vector<uint32_t>{~0x200u, 0xffu});
  REQUIRE(rows[1] == std::vector<uint32_t>{~0x204u, 0xffu});
  REQUIRE(rows[2].empty());
}

TEST_CASE("where only a stop id is left it may come early; where nothing is left no row counts") {
  const Ids stop_ids{9, 10};
  std::vector<std::vector<uint32_t>> rows(1);
  const auto end_only = AllowedTokens(Ids{9}).start();
  REQUIRE(mask_rows(*end_only, {{}, stop_ids, 5, kVocab}, rows) == 1);
  REQUIRE(rows[0] == std::vector<uint32_t>{0x200u, 0});
  const auto nothing = AllowedTokens({}).start();
  REQUIRE(mask_rows(*nothing, {{}, stop_ids, 5, kVocab}, rows) == 0);
  REQUIRE(rows[0].empty());
  // Behind a draft: the word that the draft begins takes the only allowed token away.
  const Spec one = all_of({std::make_shared<const AllowedTokens>(Ids{5}), std::make_shared<const BadWords>(std::vector<Ids>{{5, 5, 5}})});
  const auto constraint = one->start();
  rows.assign(4, {});
  REQUIRE(mask_rows(*constraint, {Ids{5, 5, 5}, stop_ids, 0, kVocab}, rows) == 2);
  REQUIRE(rows[1] == std::vector<uint32_t>{0x20u, 0});
  REQUIRE(rows[2].empty());
}
