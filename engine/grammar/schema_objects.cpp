// Objects of a schema: named properties in order, then those of patterns, then additional ones.
//
// An object is a graph. "Key i" is where the name of property i or of a later one may come, "value i" is where property i-1
// has just ended; with minProperties or maxProperties there is one of each for every count so far.
#include "engine/grammar/schema_objects.h"

#include <algorithm>

namespace slipstream::grammar {

namespace {

constexpr size_t kPatterns = 4;  // all combinations of patterns that a name may match become kinds of names

bool has(const Json& schema, const char* keyword) { return schema.contains(keyword); }

}  // namespace

ObjectBuilder::ObjectBuilder(SchemaCompiler& compiler, const Schemas& alternative) : c_(compiler), alternative_(alternative) {
  for (const Json* schema : alternative_) {
    if (has(*schema, "propertyNames")) {
      c_.document_.child(*schema, "propertyNames");
      names_.push_back(&(*schema)["propertyNames"]);
    }
    if (has(*schema, "patternProperties"))
      for (const auto& [expression, part] : (*schema)["patternProperties"].items())
        patterns_.push_back({schema, &c_.document_.child(*schema, "patternProperties", expression), expression});
    if (has(*schema, "minProperties")) min_ = std::max(min_, (*schema)["minProperties"].get<int64_t>());
    if (has(*schema, "maxProperties")) {
      const int64_t max = std::min<int64_t>((*schema)["maxProperties"].get<int64_t>(), INT32_MAX);
      max_ = max_ < 0 ? max : std::min(max_, max);
    }
  }
  if (patterns_.size() > kPatterns)
    c_.document_.fail(*patterns_[0].schema, "patternProperties",
                      "more than " + std::to_string(kPatterns) + " patterns for the names of one object");
}

bool ObjectBuilder::name_allowed(const std::string& name) {
  const Json value = name;
  return std::all_of(names_.begin(), names_.end(), [&](const Json* schema) { return c_.accepts(*schema, value, 0); });
}

bool ObjectBuilder::value_schemas(const std::string& name, Schemas* out) {
  for (const Json* schema : alternative_) {
    bool known = false;
    if (has(*schema, "properties") && (*schema)["properties"].contains(name)) {
      out->push_back(&c_.document_.child(*schema, "properties", name));
      known = true;
    }
    for (const Pattern& pattern : patterns_)
      if (pattern.schema == schema && c_.pattern(pattern.expression, *schema, "patternProperties").matches(name)) {
        out->push_back(pattern.value);
        known = true;
      }
    if (!known && has(*schema, "additionalProperties")) out->push_back(&c_.document_.child(*schema, "additionalProperties"));
  }
  return std::none_of(out->begin(), out->end(), [](const Json* schema) { return *schema == false; });
}

bool ObjectBuilder::add_named(bool xml) {
  std::set<std::string> required, seen;
  std::vector<std::string> order;
  const auto name_it = [&](const std::string& name) {
    if (seen.insert(name).second) order.push_back(name);
  };
  for (const Json* schema : alternative_)
    if (has(*schema, "properties"))
      for (const auto& [name, part] : (*schema)["properties"].items()) name_it(name);
  for (const Json* schema : alternative_)
    if (has(*schema, "required"))
      for (const Json& name : (*schema)["required"]) {
        required.insert(name.get<std::string>());
        name_it(name.get<std::string>());
      }
  for (const std::string& name : order) {
    if (!c_.context_.work(static_cast<int64_t>(alternative_.size()) * 4)) return false;
    Schemas schemas;
    const bool possible = value_schemas(name, &schemas) && name_allowed(name);
    const bool is_required = required.count(name) > 0;
    if (!possible && is_required) return false;
    if (possible && xml) properties_.push_back({c_.e_.bytes("<parameter=" + name + ">\n"), c_.xml_value(schemas), is_required});
    if (possible && !xml) properties_.push_back({c_.json_.key(name), c_.value_of(schemas), is_required});
    taken_.push_back(name);
  }
  return true;
}

/// Names that nobody has named: those of each set of patterns, and the rest.
void ObjectBuilder::add_unnamed() {
  const bool described = std::any_of(alternative_.begin(), alternative_.end(), [](const Json* schema) {
    return has(*schema, "properties") || has(*schema, "patternProperties");
  });
  const bool open = std::any_of(alternative_.begin(), alternative_.end(), [](const Json* schema) {
    return has(*schema, "additionalProperties") && (*schema)["additionalProperties"] != false;
  });
  for (uint32_t set = 0; set < (1u << patterns_.size()) && !c_.context_.failed(); ++set) {
    if (set == 0 && described && !open) continue;
    Schemas schemas;
    if (!unnamed_schemas(set, &schemas)) continue;
    Automaton names = unnamed_names(set);
    if (names.matches_nothing()) continue;
    unnamed_.push_back({c_.json_.string_of(names), c_.value_of(schemas), false});
  }
}

bool ObjectBuilder::unnamed_schemas(uint32_t set, Schemas* out) {
  for (const Json* schema : alternative_) {
    bool known = false;
    for (size_t i = 0; i < patterns_.size(); ++i)
      if ((set >> i & 1) && patterns_[i].schema == schema) {
        out->push_back(patterns_[i].value);
        known = true;
      }
    if (!known && has(*schema, "additionalProperties")) out->push_back(&c_.document_.child(*schema, "additionalProperties"));
  }
  return std::none_of(out->begin(), out->end(), [](const Json* schema) { return *schema == false; });
}

Automaton ObjectBuilder::unnamed_names(uint32_t set) {
  Automaton names = c_.json_.any_text();
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const Automaton& pattern = c_.pattern(patterns_[i].expression, *patterns_[i].schema, "patternProperties");
    names = set >> i & 1 ? intersection(names, pattern, c_.context_) : difference(names, pattern, c_.context_);
  }
  for (const Json* schema : names_) {
    std::vector<Expr> ways;
    for (const Schemas& alternative : c_.document_.alternatives({schema})) ways.push_back(name_language(alternative));
    names = intersection(names, c_.e_.build(c_.e_.choice(std::move(ways))), c_.context_);
  }
  if (taken_.empty()) return names;
  std::vector<Expr> taken;
  for (const std::string& name : taken_) taken.push_back(c_.e_.bytes(name));
  return difference(names, c_.e_.build(c_.e_.choice(std::move(taken))), c_.context_);
}

/// Decoded names that an alternative of propertyNames accepts.
Expr ObjectBuilder::name_language(const Schemas& alternative) {
  if ((c_.document_.types(alternative, true) & kString) == 0) return c_.e_.nothing();
  if (const auto* values = c_.finite_values(alternative)) {
    std::vector<Expr> ways;
    for (const Json* value : *values)
      if (value->is_string()) ways.push_back(c_.e_.bytes(value->get<std::string>()));
    return c_.e_.choice(std::move(ways));
  }
  return c_.e_.automaton(c_.string_language(alternative));
}

Expr ObjectBuilder::text() {
  Expressions& e = c_.e_;
  if (c_.context_.failed() || !add_named(false)) return e.nothing();
  add_unnamed();
  const auto named = static_cast<uint32_t>(properties_.size());
  // Counts beyond which nothing changes; without bounds on them there is nothing to count.
  const bool unbounded = !unnamed_.empty();
  if (max_ >= 0 && !unbounded && max_ >= named) max_ = -1;
  const auto required = static_cast<int64_t>(std::count_if(properties_.begin(), properties_.end(), [](const Property& p) { return p.required; }));
  if (min_ <= required) min_ = 0;
  if (!unbounded && min_ > named) return e.nothing();
  if (max_ >= 0 && max_ < std::max(min_, required)) return e.nothing();
  const int64_t most = std::max(min_, max_);
  if (most > limits::kGrammarRepeat || (most + 1) * (named + 1) > limits::kGrammarStates) {
    c_.document_.fail(*alternative_[0], max_ >= 0 ? "maxProperties" : "minProperties", "is too large for this object; leave it out");
    return e.nothing();
  }
  counts_ = static_cast<uint32_t>(most) + 1;
  return graph();
}

Expr ObjectBuilder::xml_text() {
  Expressions& e = c_.e_;
  if (c_.context_.failed() || !add_named(true)) return e.nothing();
  const auto named = static_cast<uint32_t>(properties_.size());
  // State 2 + 2i: property i or a later one may come; 3 + 2i: one was written, i is the next.
  std::vector<Expressions::Move> moves{{0, e.empty(), 2}};
  for (uint32_t i = 0; i <= named; ++i) {
    const bool more = std::any_of(properties_.begin() + i, properties_.end(), [](const Property& p) { return p.required; });
    if (!more) moves.push_back({3 + 2 * i, e.empty(), 1});
    if (!more && i == 0) moves.push_back({2, e.empty(), 1});
    if (i == named) break;
    const Property& p = properties_[i];
    moves.push_back({2 + 2 * i, e.sequence({p.key, p.value, e.bytes("\n</parameter>")}), 3 + 2 * (i + 1)});
    if (!p.required) moves.push_back({2 + 2 * i, e.empty(), 2 + 2 * (i + 1)});
    moves.push_back({3 + 2 * i, e.symbol('\n'), 2 + 2 * i});
  }
  return e.graph(4 + 2 * named, std::move(moves));
}

Expr ObjectBuilder::graph() {
  Expressions& e = c_.e_;
  JsonText& json = c_.json_;
  const auto named = static_cast<uint32_t>(properties_.size());
  const auto key = [&](uint32_t i, uint32_t count) { return 2 + 2 * (i * counts_ + count); };
  const auto value = [&](uint32_t i, uint32_t count) { return key(i, count) + 1; };
  const auto counted = [&](uint32_t count) { return std::min(count + 1, counts_ - 1); };
  const Expr colon = e.sequence({e.symbol(':'), json.after_colon()}), comma = e.sequence({e.symbol(','), json.after_comma()});
  const Expr close = e.sequence({json.space(), e.symbol('}')});

  std::vector<Expressions::Move> moves{{0, e.sequence({e.symbol('{'), json.space()}), key(0, 0)}};
  std::vector<bool> more_required(named + 1, false);
  for (uint32_t i = named; i-- > 0;) more_required[i] = more_required[i + 1] || properties_[i].required;
  if (!more_required[0] && min_ == 0) moves.push_back({key(0, 0), e.symbol('}'), 1});
  for (uint32_t i = 0; i <= named && c_.context_.work(counts_); ++i)
    for (uint32_t count = 0; count < counts_; ++count) {
      const bool full = max_ >= 0 && count >= max_;
      if (i < named && !full) {
        const Property& p = properties_[i];
        moves.push_back({key(i, count), e.sequence({p.key, colon, p.value}), value(i + 1, counted(count))});
        if (!p.required) moves.push_back({key(i, count), e.empty(), key(i + 1, count)});
      }
      if (i == named && !full)
        for (const Property& p : unnamed_)
          moves.push_back({key(i, count), e.sequence({p.key, colon, p.value}), value(i, counted(count))});
      if (!full && (i < named || !unnamed_.empty())) moves.push_back({value(i, count), comma, key(i, count)});
      if (!more_required[i] && count >= min_) moves.push_back({value(i, count), close, 1});
    }
  return e.graph(key(named, counts_ - 1) + 2, std::move(moves));
}

Expr SchemaCompiler::object_text(const Schemas& alternative) { return ObjectBuilder(*this, alternative).text(); }

}  // namespace slipstream::grammar
