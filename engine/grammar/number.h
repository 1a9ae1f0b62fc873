// Numbers as text: bounds and multiples as automata over decimal digits, exact, without floating point.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

/// 12.50 is {false, "12", "5"}; zero is {false, "0", ""}.
struct Decimal {
  bool negative = false;
  std::string whole;     // no zeros in front, "0" for none
  std::string fraction;  // no zeros behind

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Of a JSON number as it is written, with exponent; nothing when it needs more than 40 digits.
std::optional<Decimal> decimal(std::string_view json_number);
/// -1, 0, 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  bool integer = false;
  std::optional<Decimal> low, high;
  bool above_low = false, below_high = false;  // exclusive
  std::vector<Decimal> multiples;              // of each of these
};

/// The numbers of the range. Without bounds and multiples a number may have an exponent of up to three digits.
Expr number_text(const NumberRange& range, Expressions& expressions);
Automaton number_automaton(const NumberRange& range, Expressions& expressions);

}  // namespace slipstream::grammar
