// Arrays of a schema, and whether the branches of oneOf are apart.
#include <algorithm>

#include "engine/grammar/schema_compiler.h"

namespace slipstream::grammar {

Expr SchemaCompiler::array_text(const Schemas& alternative) {
  int64_t min = 0, max = -1;
  size_t prefix = 0;
  bool unique = false, tail = false;
  Schemas rest;
  for (const Json* schema : alternative) {
    if (schema->contains("minItems")) min = std::max(min, (*schema)["minItems"].get<int64_t>());
    if (schema->contains("maxItems")) {
      const auto own = std::min<int64_t>((*schema)["maxItems"].get<int64_t>(), INT32_MAX);
      max = max < 0 ? own : std::min(max, own);
    }
    if (schema->contains("prefixItems")) prefix = std::max(prefix, (*schema)["prefixItems"].size());
    if (schema->contains("items")) rest.push_back(&document_.child(*schema, "items")), tail = true;
    unique = unique || (schema->contains("uniqueItems") && (*schema)["uniqueItems"] == true);
  }
  const bool no_tail = std::any_of(rest.begin(), rest.end(), [](const Json* s) { return *s == false; });
  const auto fixed = static_cast<int64_t>(prefix);
  if (no_tail || (fixed > 0 && !tail && min <= fixed)) max = max < 0 ? fixed : std::min(max, fixed);
  if (max >= 0 && min > max) return e_.nothing();
  if (max > limits::kGrammarRepeat)
    document_.fail(*alternative[0], "maxItems", "maxItems is " + std::to_string(max) + "; at most " +
                                                    std::to_string(limits::kGrammarRepeat) + " is supported; lower it or leave it out");
  if (unique && (max < 0 || max > 1)) return unique_items(alternative, rest, min, max);

  const auto item = [&](size_t index) {
    Schemas schemas;
    for (const Json* schema : alternative) {
      const size_t own = schema->contains("prefixItems") ? (*schema)["prefixItems"].size() : 0;
      if (index < own) schemas.push_back(&document_.child(*schema, "prefixItems", index));
      else if (schema->contains("items")) schemas.push_back(&document_.child(*schema, "items"));
    }
    return value_of(schemas);
  };
  // States: behind "[" and its space (2), then one behind each item that is counted.
  const auto counted = static_cast<uint32_t>(max >= 0 ? max : std::max<int64_t>(std::max(min, fixed), 1));
  const auto behind = [](uint32_t items) { return 2 + items; };
  const Expr comma = e_.sequence({e_.symbol(','), json_.after_comma()}), close = e_.sequence({json_.space(), e_.symbol(']')});
  std::vector<Expressions::Move> moves{{0, e_.sequence({e_.symbol('['), json_.space()}), behind(0)}};
  if (min == 0) moves.push_back({behind(0), e_.symbol(']'), 1});
  for (uint32_t i = 0; i < counted && context_.work(4); ++i) {
    const Expr next = item(i);
    moves.push_back({behind(i), i == 0 ? next : e_.sequence({comma, next}), behind(i + 1)});
    if (i + 1 >= min) moves.push_back({behind(i + 1), close, 1});
  }
  if (max < 0) moves.push_back({behind(counted), e_.sequence({comma, item(counted)}), behind(counted)});
  return e_.graph(behind(counted) + 1, std::move(moves));
}

/// Items that are all different: a finite list of values, written in its order.
Expr SchemaCompiler::unique_items(const Schemas& alternative, const Schemas& items, int64_t min, int64_t max) {
  const bool prefixed = std::any_of(alternative.begin(), alternative.end(), [](const Json* s) { return s->contains("prefixItems"); });
  const std::vector<Schemas> ways = items.empty() || prefixed ? std::vector<Schemas>{} : document_.alternatives(items);
  const std::vector<const Json*>* values = ways.size() == 1 ? finite_values(ways[0]) : nullptr;
  if (values == nullptr) {
    for (const Json* schema : alternative)
      if (schema->contains("uniqueItems"))
        document_.fail(*schema, "uniqueItems", "uniqueItems is supported where items is one enum or const; remove it");
    return e_.nothing();
  }
  const auto count = static_cast<uint32_t>(values->size());
  const auto most = static_cast<uint32_t>(max < 0 ? count : std::min<int64_t>(max, count));
  if (min > most) return e_.nothing();
  // State (i, n): n of the first i values are written.
  const auto state = [&](uint32_t i, uint32_t n) { return 2 + i * (most + 1) + n; };
  const Expr comma = e_.sequence({e_.symbol(','), json_.after_comma()}), close = e_.sequence({json_.space(), e_.symbol(']')});
  std::vector<Expressions::Move> moves{{0, e_.sequence({e_.symbol('['), json_.space()}), state(0, 0)}};
  if (!context_.states(static_cast<size_t>(count + 1) * (most + 1))) return e_.nothing();
  for (uint32_t i = 0; i <= count && context_.work(most + 1); ++i)
    for (uint32_t n = 0; n <= std::min(i, most); ++n) {
      if (n >= min) moves.push_back({state(i, n), n == 0 ? e_.symbol(']') : close, 1});
      if (i == count) continue;
      moves.push_back({state(i, n), e_.empty(), state(i + 1, n)});
      const Expr text = literal(*(*values)[i]);
      if (n < most) moves.push_back({state(i, n), n == 0 ? text : e_.sequence({comma, text}), state(i + 1, n + 1)});
    }
  return e_.graph(state(count, most) + 1, std::move(moves));
}

void SchemaCompiler::check_one_ofs() {
  // Looking at one may lead to others.
  for (auto met = document_.take_one_ofs(); !met.empty() && !context_.failed(); met = document_.take_one_ofs())
    for (const Json* schema : met)
      if (one_ofs_checked_.insert(schema).second) check_one_of(schema);
}

void SchemaCompiler::check_one_of(const Json* schema) {
  const Json& branches = (*schema)["oneOf"];
  std::vector<std::vector<Schemas>> ways;
  for (size_t i = 0; i < branches.size(); ++i) ways.push_back(document_.alternatives({&document_.child(*schema, "oneOf", i)}));
  for (size_t i = 0; i < ways.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      for (const Schemas& a : ways[i])
        for (const Schemas& b : ways[j]) {
          if (!context_.work(8)) return;
          if (!apart(a, b))
            return document_.fail(*schema, "oneOf", "branches " + std::to_string(j) + " and " + std::to_string(i) +
                                                        " of oneOf may both match one value; use anyOf");
        }
}

/// No text of one is a value that the other accepts, as far as can be shown.
bool SchemaCompiler::apart(const Schemas& a, const Schemas& b) {
  const auto* finite_a = finite_values(a);
  const auto* finite_b = finite_values(b);
  const auto none = [&](const std::vector<const Json*>& values, const Schemas& schemas) {
    return std::none_of(values.begin(), values.end(), [&](const Json* value) { return accepts(schemas, *value, 0); });
  };
  if (finite_a != nullptr) return none(*finite_a, b);
  if (finite_b != nullptr) return none(*finite_b, a);
  const uint32_t both = (document_.types(a, true) & document_.types(b, false)) | (document_.types(a, false) & document_.types(b, true));
  if (both & (kNull | kBoolean | kArray)) return false;
  if ((both & (kInteger | kNumber)) != 0) {
    const Automaton numbers = intersection(number_automaton(number_range(a, document_.types(a, false)), e_),
                                           number_automaton(number_range(b, document_.types(b, false)), e_), context_);
    if (!numbers.matches_nothing()) return false;
  }
  if ((both & kString) != 0 && !intersection(string_language(a), string_language(b), context_).matches_nothing()) return false;
  return (both & kObject) == 0 || objects_apart(a, b);
}

/// Both require a property whose values are apart, or one requires what the other forbids.
bool SchemaCompiler::objects_apart(const Schemas& a, const Schemas& b) {
  const auto values = [&](const Schemas& schemas, const std::string& name, bool* forbidden) {
    Schemas out;
    for (const Json* schema : schemas) {
      if (schema->contains("properties") && (*schema)["properties"].contains(name))
        out.push_back(&document_.child(*schema, "properties", name));
      else if (schema->value("additionalProperties", Json(true)) == false && !schema->contains("patternProperties"))
        *forbidden = true;
    }
    return out;
  };
  for (const Schemas* one : {&a, &b})
    for (const Json* schema : *one) {
      if (!schema->contains("required")) continue;
      for (const Json& required : (*schema)["required"]) {
        const auto name = required.get<std::string>();
        bool forbidden = false;
        const Schemas in_a = values(a, name, &forbidden), in_b = values(b, name, &forbidden);
        if (forbidden) return true;
        const Schemas& other = one == &a ? b : a;
        const bool required_by_both = std::any_of(other.begin(), other.end(), [&](const Json* s) {
          return s->contains("required") && std::find((*s)["required"].begin(), (*s)["required"].end(), required) != (*s)["required"].end();
        });
        if (!required_by_both || in_a.empty() || in_b.empty()) continue;
        bool all = true;
        for (const Schemas& x : document_.alternatives(in_a))
          for (const Schemas& y : document_.alternatives(in_b)) all = all && finite_values(x) != nullptr && apart(x, y);
        if (all && !context_.failed()) return true;
      }
    }
  return false;
}

}  // namespace slipstream::grammar
