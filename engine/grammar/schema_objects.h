// The text of one object that a set of schemas describes. Part of SchemaCompiler.
#pragma once

#include <string>
#include <vector>

#include "engine/grammar/schema_compiler.h"

namespace slipstream::grammar {

class ObjectBuilder {
 public:
  ObjectBuilder(SchemaCompiler& compiler, const Schemas& alternative);
  Expr text();
  /// As the parameters of a tool call in XML: named properties only.
  Expr xml_text();

 private:
  struct Pattern {
    const Json* schema;  // whose patternProperties it is in
    const Json* value;
    std::string expression;
  };
  struct Property {
    Expr key, value;
    bool required;
  };

  bool name_allowed(const std::string& name);
  /// What the value of a named property must meet; false when it may not stand.
  bool value_schemas(const std::string& name, Schemas* out);
  bool add_named(bool xml);
  void add_unnamed();
  bool unnamed_schemas(uint32_t set, Schemas* out);
  Automaton unnamed_names(uint32_t set);
  Expr name_language(const Schemas& alternative);
  Expr graph();

  SchemaCompiler& c_;
  const Schemas& alternative_;
  std::vector<const Json*> names_;  // propertyNames
  std::vector<Pattern> patterns_;
  std::vector<Property> properties_;  // in order
  std::vector<Property> unnamed_;
  std::vector<std::string> taken_;
  int64_t min_ = 0, max_ = -1;
  uint32_t counts_ = 1;
};

}  // namespace slipstream::grammar
