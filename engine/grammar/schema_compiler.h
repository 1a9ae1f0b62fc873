// A JSON Schema becomes rules: one for each set of schemas that one value must meet. Knows the spelling of JSON through
// JsonText and the schema's text through SchemaDocument.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/json_text.h"
#include "engine/grammar/number.h"
#include "engine/grammar/schema_document.h"

namespace slipstream::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(std::string_view schema, const Whitespace& whitespace, Expressions& expressions);

  /// JSON texts that the schema accepts. Errors go to the context.
  Expr value();
  /// <parameter=name>, value and </parameter>, each on lines of its own, for each named property of a schema that describes
  /// an object. No line break at the end.
  Expr xml_parameters();

 private:
  friend class ObjectBuilder;
  struct Open {
    uint32_t rule;
    Schemas schemas;
  };

  /// A call of the rule of these schemas, which is made later: schemas may lead back to themselves.
  Expr value_of(const Schemas& schemas);
  void make_rules();
  /// `types`: of those only.
  Expr alternative_text(const Schemas& alternative, uint32_t types);
  Expr xml_value(const Schemas& schemas);
  Expr literal(const Json& value);
  Expr finite_text(const Schemas& alternative, uint32_t types);

  Expr string_text(const Schemas& alternative);
  Automaton string_language(const Schemas& alternative);
  const Automaton& pattern(const std::string& pattern, const Json& schema, const char* keyword);
  const Automaton& format(const std::string& name);
  bool length_bounds(const Schemas& alternative, int64_t* min, int64_t* max);
  NumberRange number_range(const Schemas& alternative, uint32_t types);

  Expr array_text(const Schemas& alternative);
  Expr unique_items(const Schemas& alternative, const Schemas& items, int64_t min, int64_t max);
  Expr object_text(const Schemas& alternative);

  /// Whether a value is one that all schemas accept.
  bool accepts(const Schemas& schemas, const Json& value, int depth);
  bool accepts(const Json& schema, const Json& value, int depth);
  bool accepts_scalar(const Json& schema, const Json& value);
  bool accepts_array(const Json& schema, const Json& value, int depth);
  bool accepts_object(const Json& schema, const Json& value, int depth);
  /// The values of enum and const that the alternative accepts; null: not a finite set.
  const std::vector<const Json*>* finite_values(const Schemas& alternative);

  void check_one_ofs();
  void check_one_of(const Json* schema);
  bool apart(const Schemas& a, const Schemas& b);
  bool objects_apart(const Schemas& a, const Schemas& b);

  Expressions& e_;
  CompileContext& context_;
  JsonText json_;
  SchemaDocument document_;
  std::map<Schemas, uint32_t> rules_;
  std::deque<Open> open_;
  std::map<std::string, Automaton> patterns_, formats_;
  std::map<Schemas, std::vector<const Json*>> finite_;
  std::set<const Json*> one_ofs_checked_;
};

}  // namespace slipstream::grammar
