// The tables of keywords and formats for scripts/make_compat.
#include <nlohmann/json.hpp>

#include "engine/grammar/schema_keywords.h"

namespace slipstream::grammar {

std::string schema_keywords_json() {
  using Json = nlohmann::ordered_json;
  Json out{{"keywords", Json::array()}, {"formats", Json::array()}};
  for (const SchemaKeyword& keyword : schema_keywords()) {
    const char* use = keyword.use == KeywordUse::kEnforced ? "enforced" : keyword.use == KeywordUse::kRefused ? "refused" : "annotation";
    out["keywords"].push_back({{"name", keyword.name}, {"use", use}, {"note", keyword.note}});
  }
  for (const StringFormat& format : string_formats())
    out["formats"].push_back({{"name", format.name}, {"use", format.pattern.empty() ? "annotation" : "enforced"}, {"note", format.note}});
  return out.dump(2);
}

}  // namespace slipstream::grammar
