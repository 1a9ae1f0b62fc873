// One schema as parsed: where each part of it stands, what its keywords may be, where references lead. And the alternatives
// that anyOf, oneOf, allOf and $ref make of it. Knows no automata but for strings.
#pragma once

#include <nlohmann/json.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/compile_context.h"

namespace slipstream::grammar {

using Json = nlohmann::ordered_json;  // properties keep their order

/// Schemas that a value must meet all of, in the order in which they were reached.
using Schemas = std::vector<const Json*>;

/// Types of values, as bits. An integer is a number without a fraction; kNumber alone is "number but not integer".
enum Types : uint32_t {
  kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64, kAllTypes = 127
};

class SchemaDocument {
 public:
  SchemaDocument(std::string_view text, CompileContext& context);

  const Json& root() const { return root_; }
  /// Dotted path below the schema's param, for errors; remembered when a part is reached from its parent.
  const std::string& path(const Json& schema) const;
  const Json& child(const Json& schema, const std::string& keyword);
  const Json& child(const Json& schema, const std::string& keyword, size_t index);
  const Json& child(const Json& schema, const std::string& keyword, const std::string& name);
  /// An error about a keyword (or about the schema itself) at its place.
  void fail(const Json& schema, const std::string& keyword, const std::string& what);

  /// The ways to meet all `schemas`: in each, $ref, allOf, anyOf and oneOf are resolved, so that the other keywords of
  /// its members, which are objects, say everything. None: no value does.
  std::vector<Schemas> alternatives(const Schemas& schemas);

  /// Types that the value may have by `type`, `enum` and `const`, and (implied) by keywords of one type without `type`.
  uint32_t types(const Schemas& alternative, bool implied);
  /// What "#", "#/…" means; null with an error for anything else.
  const Json* resolve(const Json& schema, const std::string& reference);
  /// The schemas with oneOf that alternatives() met since the last call.
  std::vector<const Json*> take_one_ofs();

 private:
  struct Reached {
    const Json* schema;
    int32_t from;  // index of the one that led here, -1: given
  };
  struct Choice {
    const Json* schema;
    const char* keyword;
    int32_t from;
  };
  struct Expansion {
    std::vector<Reached> reached;
    size_t next = 0;
    std::vector<Choice> choices;
    Schemas out;
  };

  bool check(const Json& schema);
  void check_value(const Json& schema, const std::string& keyword, const Json& value);
  bool reach(Expansion* expansion, const Json& schema, int32_t from);
  bool follow(Expansion* expansion);

  CompileContext& context_;
  const std::string param_;
  Json root_;
  std::map<const Json*, std::string> paths_;
  std::map<const Json*, bool> checked_;
  std::vector<const Json*> one_ofs_;
};

/// Types of a value.
uint32_t type_of(const Json& value);

}  // namespace slipstream::grammar
