// Text to typed values: numbers with suffixes, switches, choices, lists.
#include "config/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/base/log.h"

namespace slipstream::config {
namespace {

struct Suffix {
  std::string_view text;
  int64_t factor;
  bool bytes_only;
};

constexpr int64_t kKilo = 1000, kKibi = 1024;
constexpr Suffix kSuffixes[] = {
    {"k", kKilo, false},
    {"K", kKibi, false},
    {"m", kKilo * kKilo, false},
    {"M", kKibi * kKibi, false},
    {"g", kKilo * kKilo * kKilo, false},
    {"G", kKibi * kKibi * kKibi, false},
    {"t", kKilo * kKilo * kKilo * kKilo, false},
    {"T", kKibi * kKibi * kKibi * kKibi, false},
    {"B", 1, true},
    {"KB", kKilo, true},
    {"MB", kKilo * kKilo, true},
    {"GB", kKilo * kKilo * kKilo, true},
    {"TB", kKilo * kKilo * kKilo * kKilo, true},
    {"KiB", kKibi, true},
    {"MiB", kKibi * kKibi, true},
    {"GiB", kKibi * kKibi * kKibi, true},
    {"TiB", kKibi * kKibi * kKibi * kKibi, true},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Integer part, fraction and suffix as exact integer arithmetic: "25.6k" is 25,600, not 25,599.99.
bool scaled(std::string_view whole, std::string_view fraction, int64_t factor, int64_t* out) {
  if (whole.empty() || whole.size() > 18 || fraction.size() > 6) return false;
  int64_t value = 0;
  std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (__builtin_mul_overflow(value, factor, &value)) return false;
  int64_t part = 0, unit = 1;
  for (char c : fraction) {
    part = part * 10 + (c - '0');
    unit *= 10;
  }
  int64_t scaled_part = 0;
  if (__builtin_mul_overflow(part, factor, &scaled_part)) return false;
  if (scaled_part % unit != 0) return false;
  return !__builtin_add_overflow(value, scaled_part / unit, out);
}

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

std::string integer_text(double value) { return std::to_string(static_cast<int64_t>(value)); }

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::string_view word : words) {
    if (word.empty()) continue;
    out += (out.empty() ? "" : ", ") + std::string(word);
  }
  return out;
}

Error refuse(const std::string& where, const std::string& problem) {
  return invalid_argument(where + ": " + problem, where);
}

template <typename T>
Status set_integer(const Flag& flag, const std::string& text, const std::string& where, T& out) {
  auto parsed = parse_integer(text, flag.metavar == "BYTES");
  if (!parsed) return refuse(where, parsed.error().message);
  const bool bounded = flag.min != 0 || flag.max != 0;
  const int64_t low = bounded ? static_cast<int64_t>(flag.min) : (std::is_unsigned_v<T> ? 0 : std::numeric_limits<int32_t>::min());
  const int64_t high = bounded ? static_cast<int64_t>(flag.max)
                               : static_cast<int64_t>(sizeof(T) == 4 ? std::numeric_limits<int32_t>::max()
                                                                     : std::numeric_limits<int64_t>::max());
  if (*parsed < low || *parsed > high) {
    return refuse(where, in_quotes(text) + " is out of range: " + integer_text(static_cast<double>(low)) + " to " +
                             std::to_string(high));
  }
  out = static_cast<T>(*parsed);
  return Ok{};
}

Status set_number(const Flag& flag, const std::string& text, const std::string& where, double& out) {
  auto parsed = parse_number(text);
  if (!parsed) return refuse(where, parsed.error().message);
  if ((flag.min != 0 || flag.max != 0) && !(*parsed >= flag.min && *parsed <= flag.max)) {
    return refuse(where, in_quotes(text) + " is out of range: " + number_text(flag.min) + " to " + number_text(flag.max));
  }
  out = *parsed;
  return Ok{};
}

/// The word after the flag's own translations, or an error for a word that is refused or unknown.
Result<std::string> chosen(const Flag& flag, const std::string& text, const std::string& where) {
  for (const auto& [word, why] : flag.refused_values) {
    if (word == text) return unsupported(where + ": " + in_quotes(text) + " " + std::string(why), where);
  }
  for (const auto& [word, ours] : flag.values) {
    if (word == text) return std::string(ours);
  }
  if (flag.choices.empty()) return text;
  for (std::string_view choice : flag.choices) {
    if (choice == text) return text;
  }
  return refuse(where, in_quotes(text) + " is not one of: " + joined(flag.choices));
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 80;
  return log::json_quote_cut(text, kShown);
}

Result<int64_t> parse_integer(std::string_view text, bool bytes) {
  const Error not_a_number =
      invalid_argument(in_quotes(text) + " is not a whole number" + (bytes ? " of bytes (512MiB style works)" : " (32k style works)"));
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (negative) rest.remove_prefix(1);
  const size_t digits_end = std::min(rest.find_first_not_of("0123456789."), rest.size());
  const std::string_view digits = rest.substr(0, digits_end), suffix = rest.substr(digits_end);
  int64_t factor = 1;
  if (!suffix.empty()) {
    const auto* found = std::find_if(std::begin(kSuffixes), std::end(kSuffixes),
                                     [&](const Suffix& s) { return s.text == suffix && (bytes || !s.bytes_only); });
    if (found == std::end(kSuffixes)) return not_a_number;
    factor = found->factor;
  }
  const size_t dot = digits.find('.');
  const std::string_view whole = digits.substr(0, dot);
  const std::string_view fraction = dot == std::string_view::npos ? std::string_view{} : digits.substr(dot + 1);
  if (whole.empty() || !all_digits(fraction) || (dot != std::string_view::npos && (fraction.empty() || factor == 1))) {
    return not_a_number;
  }
  int64_t value = 0;
  if (factor == 1) {  // plain digits may use the whole range of 64 bits
    const auto result = std::from_chars(text.data(), text.data() + (text.size() - suffix.size()), value);
    if (result.ec != std::errc{}) return invalid_argument(in_quotes(text) + " does not fit into 64 bits");
    return value;
  }
  if (!scaled(whole, fraction, factor, &value)) {
    return invalid_argument(in_quotes(text) + " is not a whole number of 64 bits");
  }
  return negative ? -value : value;
}

Result<bool> parse_bool(std::string_view text) {
  const std::string word = lower(text);
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (word == no) return false;
  }
  return invalid_argument(in_quotes(text) + " is neither true nor false");
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size() || !std::isfinite(value)) {
    return invalid_argument(in_quotes(text) + " is not a number");
  }
  return value;
}

Status set_field(const Flag& flag, const std::vector<std::string>& values, const std::string& where, Config& config) {
  CHECK(flag.treatment == Treatment::kSet, "a flag without a field");
  if (is_list(flag)) {
    for (const std::string& value : values) {
      if (value.empty()) return refuse(where, "an empty " + std::string(flag.metavar) + " means nothing");
    }
    std::get<std::vector<std::string>& (*)(Config&)>(flag.field)(config) = values;
    return Ok{};
  }
  if (values.size() != 1) return refuse(where, "takes one value, not " + std::to_string(values.size()));
  SLIP_TRY(const std::string text, chosen(flag, values[0], where));
  struct Setter {
    const Flag& flag;
    const std::string& text;
    const std::string& where;
    Config& config;
    Status operator()(std::monostate) const { return Ok{}; }
    Status operator()(bool& (*at)(Config&)) const {
      auto parsed = parse_bool(text);
      if (!parsed) return refuse(where, parsed.error().message);
      at(config) = *parsed;
      return Ok{};
    }
    Status operator()(int32_t& (*at)(Config&)) const { return set_integer(flag, text, where, at(config)); }
    Status operator()(int64_t& (*at)(Config&)) const { return set_integer(flag, text, where, at(config)); }
    Status operator()(uint64_t& (*at)(Config&)) const { return set_integer(flag, text, where, at(config)); }
    Status operator()(double& (*at)(Config&)) const { return set_number(flag, text, where, at(config)); }
    Status operator()(std::string& (*at)(Config&)) const {
      if (text.find('\0') != std::string::npos) return refuse(where, "a NUL byte means nothing here");
      at(config) = text;
      return Ok{};
    }
    Status operator()(std::vector<std::string>& (*)(Config&)) const { return Ok{}; }
  };
  return std::visit(Setter{flag, text, where, config}, flag.field);
}

std::string field_text(const Flag& flag, Config& config) {
  struct Text {
    const Flag& flag;
    Config& config;
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool& (*at)(Config&)) const { return at(config) ? "true" : "false"; }
    std::string operator()(int32_t& (*at)(Config&)) const { return std::to_string(at(config)); }
    std::string operator()(int64_t& (*at)(Config&)) const { return std::to_string(at(config)); }
    std::string operator()(uint64_t& (*at)(Config&)) const { return std::to_string(at(config)); }
    std::string operator()(double& (*at)(Config&)) const { return number_text(at(config)); }
    std::string operator()(std::string& (*at)(Config&)) const {
      if (flag.secret && !at(config).empty()) return "(set)";
      return at(config);
    }
    std::string operator()(std::vector<std::string>& (*at)(Config&)) const {
      const auto& list = at(config);
      if (flag.secret && !list.empty()) return "(" + std::to_string(list.size()) + " set)";
      std::string out;
      for (const std::string& item : list) out += (out.empty() ? "" : ",") + item;
      return out;
    }
  };
  return std::visit(Text{flag, config}, flag.field);
}

}  // namespace slipstream::config
