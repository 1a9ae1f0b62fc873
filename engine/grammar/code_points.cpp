// Sets of characters, and the bytes of UTF-8 that spell them.
#include <algorithm>

#include "engine/base/utf8.h"
#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

namespace {

constexpr char32_t kLast{0x10FFFF}, kSurrogates{0xD800}, kSurrogatesEnd{0xDFFF};

/// Ranges whose ends have the same length in UTF-8 and whose trailing bytes are independent of each other: each is a
/// product of byte ranges.
void add_product(Nfa* nfa, uint32_t end, char32_t low, char32_t high) {
  for (int trailing = 1; trailing <= 3; ++trailing) {
    const char32_t inside = (char32_t{1} << (6 * trailing)) - 1;
    if ((low & ~inside) == (high & ~inside)) break;
    if ((low & inside) != 0) {
      add_product(nfa, end, low, low | inside);
      add_product(nfa, end, (low | inside) + 1, high);
      return;
    }
    if ((high & inside) != inside) {
      add_product(nfa, end, low, (high & ~inside) - 1);
      add_product(nfa, end, high & ~inside, high);
      return;
    }
  }
  std::string first, last;
  append_utf8(first, low);
  append_utf8(last, high);
  uint32_t at = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const uint32_t to = i + 1 == first.size() ? end : nfa->add_state();
    nfa->add_edge(at, static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i]), to);
    at = to;
  }
}

}  // namespace

CodePoints normalised(CodePoints ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePoints joined;
  for (auto [low, high] : ranges) {
    high = std::min(high, kLast);
    if (low > high) continue;
    if (!joined.empty() && low <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, high);
    else
      joined.push_back({low, high});
  }
  CodePoints out;
  for (const auto& [low, high] : joined) {
    if (low < kSurrogates) out.push_back({low, std::min<char32_t>(high, kSurrogates - 1)});
    if (high > kSurrogatesEnd) out.push_back({std::max<char32_t>(low, kSurrogatesEnd + 1), high});
  }
  return out;
}

CodePoints complement(const CodePoints& ranges) {
  CodePoints out;
  char32_t next = 0;
  for (const auto& [low, high] : normalised(ranges)) {
    if (low > next) out.push_back({next, low - 1});
    next = high + 1;
  }
  if (next <= kLast) out.push_back({next, kLast});
  return normalised(std::move(out));
}

Expr Expressions::code_points(const CodePoints& ranges) {
  Nfa nfa;
  const uint32_t end = nfa.add_state();
  nfa.accept(end);
  for (const auto& [low, high] : normalised(ranges)) {
    char32_t from = low;
    for (const char32_t last : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}, kLast}) {
      if (from <= last && from <= high) add_product(&nfa, end, from, std::min(high, last));
      from = std::max<char32_t>(from, last + 1);
    }
  }
  return automaton(minimised(nfa.deterministic(context_), context_));
}

}  // namespace slipstream::grammar
