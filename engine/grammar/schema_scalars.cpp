// Strings and numbers of a schema.
#include <algorithm>

#include "engine/grammar/regex.h"
#include "engine/grammar/schema_compiler.h"
#include "engine/grammar/schema_keywords.h"

namespace slipstream::grammar {

const Automaton& SchemaCompiler::pattern(const std::string& text, const Json& schema, const char* keyword) {
  const auto found = patterns_.find(text);
  if (found != patterns_.end()) return found->second;
  CompileContext& c = context_;
  const std::string outer = std::exchange(c.param, c.param + document_.path(schema) + "." + keyword);
  Automaton automaton = regex_automaton(text, RegexMatch::kSearch, e_);
  c.param = outer;
  return patterns_[text] = std::move(automaton);
}

const Automaton& SchemaCompiler::format(const std::string& name) {
  const auto found = formats_.find(name);
  if (found != formats_.end()) return found->second;
  return formats_[name] = minimised(regex_automaton(find_format(name)->pattern, RegexMatch::kWhole, e_), context_);
}

bool SchemaCompiler::length_bounds(const Schemas& alternative, int64_t* min, int64_t* max) {
  *min = 0;
  *max = -1;
  for (const Json* schema : alternative) {
    if (schema->contains("minLength")) *min = std::max(*min, (*schema)["minLength"].get<int64_t>());
    if (!schema->contains("maxLength")) continue;
    const auto own = (*schema)["maxLength"].get<int64_t>();
    if (own > limits::kGrammarRepeat)
      document_.fail(*schema, "maxLength", "maxLength is " + std::to_string(own) + "; at most " +
                                               std::to_string(limits::kGrammarRepeat) + " is supported; lower it or leave it out");
    *max = *max < 0 ? own : std::min(*max, own);
  }
  return *min > 0 || *max >= 0;
}

Automaton SchemaCompiler::string_language(const Schemas& alternative) {
  Automaton out = json_.any_text();
  for (const Json* schema : alternative) {
    if (context_.failed()) return {};
    if (schema->contains("pattern"))
      out = intersection(out, pattern((*schema)["pattern"].get<std::string>(), *schema, "pattern"), context_);
    const StringFormat* known = schema->contains("format") ? find_format((*schema)["format"].get<std::string>()) : nullptr;
    if (known != nullptr && !known->pattern.empty()) out = intersection(out, format(std::string(known->name)), context_);
  }
  int64_t min = 0, max = -1;
  if (length_bounds(alternative, &min, &max) && !context_.failed())
    out = max >= 0 && min > max ? Automaton{}
                                : intersection(out, e_.build(e_.repeat(e_.any_character(), static_cast<int32_t>(min), static_cast<int32_t>(max))), context_);
  return out;
}

Expr SchemaCompiler::string_text(const Schemas& alternative) {
  const bool shaped = std::any_of(alternative.begin(), alternative.end(), [](const Json* schema) {
    if (schema->contains("pattern")) return true;
    const StringFormat* known = schema->contains("format") ? find_format((*schema)["format"].get<std::string>()) : nullptr;
    return known != nullptr && !known->pattern.empty();
  });
  if (shaped) return json_.string_of(string_language(alternative));
  int64_t min = 0, max = -1;
  if (!length_bounds(alternative, &min, &max)) return json_.string();
  if (context_.failed() || (max >= 0 && min > max)) return e_.nothing();
  return json_.string_of_length(static_cast<int32_t>(min), static_cast<int32_t>(max));
}

NumberRange SchemaCompiler::number_range(const Schemas& alternative, uint32_t types) {
  NumberRange range;
  range.integer = (types & kNumber) == 0;
  const auto read = [&](const Json& schema, const char* keyword) {
    const auto value = decimal(schema[keyword].dump());
    if (!value) document_.fail(schema, keyword, std::string(keyword) + " needs more than 40 digits; use a simpler number");
    return value;
  };
  const auto tighten = [&](const Json& schema, const char* keyword, bool low, bool strict) {
    if (!schema.contains(keyword)) return;
    const auto value = read(schema, keyword);
    std::optional<Decimal>& bound = low ? range.low : range.high;
    bool& bound_strict = low ? range.above_low : range.below_high;
    if (!value) return;
    const int order = bound ? compare(*value, *bound) * (low ? 1 : -1) : 1;
    if (order > 0) bound = value, bound_strict = strict;
    if (order == 0) bound_strict = bound_strict || strict;
  };
  for (const Json* schema : alternative) {
    tighten(*schema, "minimum", true, false);
    tighten(*schema, "exclusiveMinimum", true, true);
    tighten(*schema, "maximum", false, false);
    tighten(*schema, "exclusiveMaximum", false, true);
    if (!schema->contains("multipleOf")) continue;
    if (const auto step = read(*schema, "multipleOf")) range.multiples.push_back(*step);
    if ((*schema)["multipleOf"] <= 0) document_.fail(*schema, "multipleOf", "multipleOf must be larger than 0");
  }
  return range;
}

}  // namespace slipstream::grammar
