// Rules of schemas: alternatives, finite sets of values, dispatch over types.
#include "engine/grammar/schema_compiler.h"

#include <algorithm>
#include <utility>

#include "engine/grammar/schema_objects.h"

namespace slipstream::grammar {

SchemaCompiler::SchemaCompiler(std::string_view schema, const Whitespace& whitespace, Expressions& expressions)
    : e_(expressions), context_(expressions.context()), json_(expressions, whitespace), document_(schema, context_) {}

Expr SchemaCompiler::value() {
  if (context_.failed()) return e_.nothing();
  const Expr root = value_of({&document_.root()});
  make_rules();
  return root;
}

Expr SchemaCompiler::value_of(const Schemas& schemas) {
  Schemas key;
  for (const Json* schema : schemas)
    if (*schema != true) key.push_back(schema);
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  if (key.empty()) return json_.value();
  const auto found = rules_.find(key);
  if (found != rules_.end()) return e_.call(found->second);
  const std::string& path = document_.path(*key[0]);
  const uint32_t rule = e_.add_rule(path.empty() ? "the schema" : path.substr(1));
  if (context_.failed()) return e_.nothing();
  rules_.emplace(key, rule);
  // In the order given, which is the order of the texts; the key is only a name.
  Schemas ordered;
  for (const Json* schema : schemas)
    if (*schema != true) ordered.push_back(schema);
  open_.push_back({rule, std::move(ordered)});
  return e_.call(rule);
}

void SchemaCompiler::make_rules() {
  while (!open_.empty() && context_.work(16)) {
    const Open open = std::move(open_.front());
    open_.pop_front();
    std::vector<Expr> ways;
    for (const Schemas& alternative : document_.alternatives(open.schemas)) ways.push_back(alternative_text(alternative, kAllTypes));
    e_.define(open.rule, e_.choice(std::move(ways)));
    check_one_ofs();
  }
}

Expr SchemaCompiler::alternative_text(const Schemas& alternative, uint32_t wanted) {
  const uint32_t types = document_.types(alternative, true) & wanted;
  if (finite_values(alternative) != nullptr) return finite_text(alternative, types);
  if (types == kAllTypes) return json_.value();
  std::vector<Expr> ways;
  if (types & kNull) ways.push_back(e_.bytes("null"));
  if (types & kBoolean) ways.push_back(e_.choice({e_.bytes("true"), e_.bytes("false")}));
  if (types & (kInteger | kNumber)) ways.push_back(number_text(number_range(alternative, types), e_));
  if (types & kString) ways.push_back(string_text(alternative));
  if (types & kArray) ways.push_back(array_text(alternative));
  if (types & kObject) ways.push_back(object_text(alternative));
  return ways.size() == 1 ? ways[0] : e_.choice(std::move(ways));
}

Expr SchemaCompiler::xml_parameters() {
  if (context_.failed()) return e_.nothing();
  std::vector<Expr> ways;
  for (const Schemas& alternative : document_.alternatives({&document_.root()}))
    if (document_.types(alternative, true) & kObject) ways.push_back(ObjectBuilder(*this, alternative).xml_text());
  check_one_ofs();
  make_rules();
  return e_.choice(std::move(ways));
}

/// Strings as they are, up to the end of their element; everything else as JSON.
Expr SchemaCompiler::xml_value(const Schemas& schemas) {
  constexpr std::string_view kEnd = "</parameter>";
  std::vector<Expr> ways;
  for (const Schemas& alternative : document_.alternatives(schemas)) {
    if (!context_.work(8)) break;
    const uint32_t types = document_.types(alternative, true);
    ways.push_back(alternative_text(alternative, types == kAllTypes ? kAllTypes : types & ~static_cast<uint32_t>(kString)));
    if ((types & kString) == 0 || types == kAllTypes) continue;
    if (const auto* values = finite_values(alternative)) {
      for (const Json* value : *values)
        if (value->is_string() && value->get<std::string>().find(kEnd) == std::string::npos)
          ways.push_back(e_.bytes(value->get<std::string>()));
    } else {
      const Expr anything = e_.repeat(e_.range(0, 255), 0, -1);
      const Automaton with_end = e_.build(e_.sequence({anything, e_.bytes(kEnd), anything}));
      ways.push_back(e_.automaton(difference(string_language(alternative), with_end, context_)));
    }
  }
  return e_.choice(std::move(ways));
}

Expr SchemaCompiler::finite_text(const Schemas& alternative, uint32_t types) {
  std::vector<Expr> ways;
  for (const Json* value : *finite_values(alternative))
    if (type_of(*value) & types) ways.push_back(literal(*value));
  return e_.choice(std::move(ways));
}

/// A value that the schema names, with the white space that others have.
Expr SchemaCompiler::literal(const Json& value) {
  if (!value.is_structured()) return e_.bytes(value.dump());
  if (value.empty()) return e_.sequence({e_.bytes(value.is_array() ? "[" : "{"), json_.space(), e_.bytes(value.is_array() ? "]" : "}")});
  std::vector<Expr> parts{e_.symbol(value.is_array() ? '[' : '{'), json_.space()};
  bool first = true;
  for (const auto& [name, member] : value.items()) {
    if (!std::exchange(first, false)) parts.insert(parts.end(), {e_.symbol(','), json_.after_comma()});
    if (value.is_object()) parts.insert(parts.end(), {json_.key(name), e_.symbol(':'), json_.after_colon()});
    parts.push_back(literal(member));
  }
  parts.insert(parts.end(), {json_.space(), e_.symbol(value.is_array() ? ']' : '}')});
  return e_.sequence(std::move(parts));
}

const std::vector<const Json*>* SchemaCompiler::finite_values(const Schemas& alternative) {
  const Json* source = nullptr;
  for (const Json* schema : alternative)
    if (schema->contains("const") || (schema->contains("enum") && source == nullptr)) source = schema;
  if (source == nullptr) return nullptr;
  const auto [at, added] = finite_.try_emplace(alternative);
  if (!added) return &at->second;
  std::vector<const Json*> values;
  if (source->contains("const")) values.push_back(&(*source)["const"]);
  else
    for (const Json& value : (*source)["enum"]) values.push_back(&value);
  for (const Json* value : values) {
    if (!context_.work(static_cast<int64_t>(alternative.size()))) break;
    if (accepts(alternative, *value, 0)) at->second.push_back(value);
  }
  return &at->second;
}

}  // namespace slipstream::grammar
