// Number languages: syntax, at least, at most, multiple of.
#include "engine/grammar/number.h"

#include <algorithm>

namespace slipstream::grammar {

namespace {

constexpr size_t kDigits = 40;
constexpr int64_t kMultiple = 10'000;  // states of an automaton that counts modulo this

void strip(Decimal* d) {
  const size_t first = std::min(d->whole.find_first_not_of('0'), d->whole.size());
  d->whole.erase(0, first);
  if (d->whole.empty()) d->whole = "0";
  d->fraction.erase(d->fraction.find_last_not_of('0') + 1);
  if (d->is_zero()) d->negative = false;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int whole = a.whole.compare(b.whole)) return whole < 0 ? -1 : 1;
  const int fraction = a.fraction.compare(b.fraction);  // without zeros behind, a prefix is the smaller one
  return fraction == 0 ? 0 : fraction < 0 ? -1 : 1;
}

class NumberLanguage {
 public:
  explicit NumberLanguage(Expressions& e) : e_(e), digit_(e.range('0', '9')) {}

  Expr digits(int32_t min, int32_t max) { return e_.repeat(digit_, min, max); }
  Expr whole() { return e_.choice({e_.symbol('0'), e_.sequence({e_.range('1', '9'), digits(0, -1)})}); }
  Expr fraction() { return e_.optional(e_.sequence({e_.symbol('.'), digits(1, -1)})); }
  Expr exponent() {
    const Expr sign = e_.optional(e_.choice({e_.symbol('+'), e_.symbol('-')}));
    return e_.optional(e_.sequence({e_.choice({e_.symbol('e'), e_.symbol('E')}), sign, digits(1, 3)}));
  }

  /// Magnitudes of at least (greater) or at most (less) `bound`, or strictly so; any number of zeros in front is
  /// for the caller to exclude.
  Expr beyond(const Decimal& bound, bool greater, bool strict) {
    const std::string& w = bound.whole;
    const auto length = static_cast<int32_t>(w.size());
    std::vector<Expr> ways;
    if (greater) ways.push_back(e_.sequence({e_.range('1', '9'), digits(length, -1), fraction()}));
    else if (length > 1) ways.push_back(e_.sequence({digits(1, length - 1), fraction()}));
    for (int32_t i = 0; i < length; ++i)
      if (const auto other = differing(w[static_cast<size_t>(i)], greater))
        ways.push_back(e_.sequence({e_.bytes(std::string_view(w).substr(0, static_cast<size_t>(i))), *other,
                                    digits(length - i - 1, length - i - 1), fraction()}));
    ways.push_back(e_.sequence({e_.bytes(w), fraction_beyond(bound.fraction, greater, strict)}));
    return e_.choice(std::move(ways));
  }

  /// Digits of value modulo `step` at 10^-places: the state is (remainder, digits behind the point).
  Automaton multiples(const Decimal& multiple) {
    const std::string scaled = multiple.whole + multiple.fraction;
    const auto places = static_cast<int64_t>(multiple.fraction.size());
    int64_t step = 0;
    for (const char c : scaled) step = std::min<int64_t>(step * 10 + (c - '0'), kMultiple + 1);
    if (step > kMultiple || step == 0 || multiple.negative) {
      e_.context().fail("multipleOf must be positive and have a value of at most " + std::to_string(kMultiple) +
                        " without its decimal point");
      return {};
    }
    Nfa nfa;
    const auto state = [&](int64_t places_used, int64_t remainder) {  // 0 is the start; places_used 0 is "no point yet"
      return static_cast<uint32_t>(1 + places_used * step + remainder);
    };
    for (int64_t i = 0; i < (places + 2) * step; ++i) nfa.add_state();
    for (int64_t d = 0; d < 10; ++d) nfa.add_edge(0, digit(d), digit(d), state(0, d % step));
    for (int64_t r = 0; r < step; ++r) {
      for (int64_t d = 0; d < 10; ++d) nfa.add_edge(state(0, r), digit(d), digit(d), state(0, (r * 10 + d) % step));
      int64_t at_end = r;
      for (int64_t p = 0; p < places; ++p) at_end = at_end * 10 % step;
      if (at_end == 0) nfa.accept(state(0, r));
    }
    add_places(&nfa, step, places, state);
    return nfa.deterministic(e_.context());
  }

 private:
  static Symbol digit(int64_t d) { return static_cast<Symbol>('0' + d); }

  template <typename State>
  void add_places(Nfa* nfa, int64_t step, int64_t places, const State& state) {
    if (places == 0) return;
    // Layer p + 1 holds numbers with p digits behind the point; the point itself leads into p = 0, which may not end.
    for (int64_t r = 0; r < step; ++r) {
      nfa->add_edge(state(0, r), '.', '.', state(1, r));
      for (int64_t p = 0; p < places; ++p) {
        for (int64_t d = 0; d < 10; ++d) {
          const int64_t next = (r * 10 + d) % step;
          if (p + 1 < places) nfa->add_edge(state(p + 1, r), digit(d), digit(d), state(p + 2, next));
          else if (next == 0) nfa->add_edge(state(p + 1, r), digit(d), digit(d), last(nfa));
        }
        int64_t at_end = r;
        for (int64_t rest = p; rest < places; ++rest) at_end = at_end * 10 % step;
        if (p > 0 && at_end == 0) nfa->accept(state(p + 1, r));
      }
    }
  }
  uint32_t last(Nfa* nfa) {
    if (last_ == kNoState) nfa->accept(last_ = nfa->add_state());
    return last_;
  }

  std::optional<Expr> differing(char c, bool greater) {
    if (greater ? c == '9' : c == '0') return std::nullopt;
    return greater ? e_.range(static_cast<Symbol>(c + 1), '9') : e_.range('0', static_cast<Symbol>(c - 1));
  }

  /// What may follow the bound's whole part: nothing, or a point and digits.
  Expr fraction_beyond(const std::string& f, bool greater, bool strict) {
    std::vector<Expr> ways;
    const Expr zeros = e_.repeat(e_.symbol('0'), 0, -1);
    const auto prefix = [&](size_t n) { return e_.bytes("." + f.substr(0, n)); };
    for (size_t i = 0; i < f.size(); ++i)
      if (const auto other = differing(f[i], greater)) ways.push_back(e_.sequence({prefix(i), *other, digits(0, -1)}));
    const Expr more = e_.sequence({zeros, e_.range('1', '9'), digits(0, -1)});
    if (greater) ways.push_back(e_.sequence({prefix(f.size()), more}));
    if (!greater)
      for (size_t i = 0; i < f.size(); ++i) ways.push_back(i == 0 ? e_.empty() : prefix(i));
    if (!strict) {
      if (f.empty()) ways.push_back(e_.optional(e_.sequence({e_.symbol('.'), e_.repeat(e_.symbol('0'), 1, -1)})));
      else ways.push_back(e_.sequence({prefix(f.size()), zeros}));
    }
    return e_.choice(std::move(ways));
  }

  Expressions& e_;
  const Expr digit_;
  uint32_t last_ = kNoState;
};

/// Magnitudes between the bounds, which are not negative.
Automaton magnitudes(const NumberRange& range, const std::optional<Decimal>& low, bool above,
                     const std::optional<Decimal>& high, bool below, Expressions& e) {
  NumberLanguage language(e);
  Automaton out = e.build(range.integer ? language.whole() : e.sequence({language.whole(), language.fraction()}));
  if (low) out = intersection(out, e.build(language.beyond(*low, true, above)), e.context());
  if (high) out = intersection(out, e.build(language.beyond(*high, false, below)), e.context());
  for (const Decimal& multiple : range.multiples)
    out = intersection(out, NumberLanguage(e).multiples(multiple), e.context());
  return out;
}

Decimal negated(Decimal d) {
  d.negative = !d.negative && !d.is_zero();
  return d;
}

}  // namespace

std::optional<Decimal> decimal(std::string_view text) {
  Decimal d;
  d.negative = text.starts_with('-');
  if (d.negative) text.remove_prefix(1);
  const size_t e = text.find_first_of("eE");
  int64_t exponent = 0;
  if (e != std::string_view::npos) {
    exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  d.whole = text.substr(0, point);
  if (point != std::string_view::npos) d.fraction = text.substr(point + 1);
  if (exponent > 400 || exponent < -400) return std::nullopt;
  for (; exponent > 0; --exponent) {
    d.whole += d.fraction.empty() ? '0' : d.fraction[0];
    if (!d.fraction.empty()) d.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    d.fraction.insert(d.fraction.begin(), d.whole.empty() ? '0' : d.whole.back());
    if (!d.whole.empty()) d.whole.pop_back();
  }
  strip(&d);
  if (d.whole.size() + d.fraction.size() > kDigits) return std::nullopt;
  return d;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int magnitudes_order = compare_magnitudes(a, b);
  return a.negative ? -magnitudes_order : magnitudes_order;
}

Automaton number_automaton(const NumberRange& range, Expressions& e) { return e.build(number_text(range, e)); }

Expr number_text(const NumberRange& range, Expressions& e) {
  NumberLanguage language(e);
  if (!range.low && !range.high && range.multiples.empty()) {
    if (range.integer)
      return e.choice({e.symbol('0'), e.sequence({e.optional(e.symbol('-')), e.range('1', '9'), language.digits(0, -1)})});
    return e.sequence({e.optional(e.symbol('-')), language.whole(), language.fraction(), language.exponent()});
  }
  const Decimal zero{false, "0", ""};
  const std::optional<Decimal> none;
  std::vector<Expr> ways;
  const bool low_negative = !range.low || range.low->negative, high_negative = range.high && range.high->negative;
  if (!high_negative)
    ways.push_back(e.automaton(magnitudes(range, low_negative ? none : range.low, range.above_low, range.high,
                                          range.below_high, e)));
  if (low_negative) {
    const Decimal least = high_negative ? negated(*range.high) : zero;
    const bool above = high_negative ? range.below_high : true;  // -0 is not written
    const std::optional<Decimal> most = range.low ? std::optional<Decimal>(negated(*range.low)) : none;
    ways.push_back(e.sequence({e.symbol('-'), e.automaton(magnitudes(range, least, above, most, range.above_low, e))}));
  }
  return e.choice(std::move(ways));
}

}  // namespace slipstream::grammar
