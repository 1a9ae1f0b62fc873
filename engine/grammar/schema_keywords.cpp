// The tables. A row's note is what docs/compatibility.md says.
#include "engine/grammar/schema_keywords.h"

#include <algorithm>
#include <array>

namespace slipstream::grammar {

namespace {

constexpr auto kEnforced = KeywordUse::kEnforced;
constexpr auto kAnnotation = KeywordUse::kAnnotation;
constexpr auto kRefused = KeywordUse::kRefused;

constexpr std::array kKeywords = std::to_array<SchemaKeyword>({
    {"type", kEnforced, "a name or a list; without it, keywords of one type imply that type"},
    {"enum", kEnforced, "values that meet the other keywords too"},
    {"const", kEnforced, ""},
    {"properties", kEnforced, "written in the order of the schema"},
    {"required", kEnforced, ""},
    {"additionalProperties", kEnforced, "absent beside properties or patternProperties: none are written"},
    {"patternProperties", kEnforced, "at most four patterns of one object; written behind the named properties"},
    {"propertyNames", kEnforced, ""},
    {"minProperties", kEnforced, ""},
    {"maxProperties", kEnforced, ""},
    {"items", kEnforced, "absent behind prefixItems: none are written unless minItems asks for more"},
    {"prefixItems", kEnforced, ""},
    {"minItems", kEnforced, ""},
    {"maxItems", kEnforced, ""},
    {"uniqueItems", kEnforced, "true where at most one item may stand, or items is a finite list: then in its order"},
    {"minLength", kEnforced, "in characters"},
    {"maxLength", kEnforced, "in characters"},
    {"pattern", kEnforced, "found anywhere unless anchored; ECMAScript without look-around, back references and \\b"},
    {"format", kEnforced, "see the list of formats"},
    {"minimum", kEnforced, "numbers are then written without an exponent"},
    {"maximum", kEnforced, "as minimum"},
    {"exclusiveMinimum", kEnforced, "as minimum"},
    {"exclusiveMaximum", kEnforced, "as minimum"},
    {"multipleOf", kEnforced, "up to 10000 without its decimal point"},
    {"nullable", kEnforced, "true adds null"},
    {"anyOf", kEnforced, ""},
    {"oneOf", kEnforced, "where no value can match two branches; otherwise refused, use anyOf"},
    {"allOf", kEnforced, "merged"},
    {"$ref", kEnforced, "inside the schema, recursive too; keywords beside it count"},
    {"$defs", kEnforced, "read where $ref leads to it"},
    {"definitions", kEnforced, "as $defs"},

    {"title", kAnnotation, ""}, {"description", kAnnotation, ""}, {"default", kAnnotation, ""},
    {"examples", kAnnotation, ""}, {"example", kAnnotation, ""}, {"$schema", kAnnotation, ""}, {"$id", kAnnotation, ""},
    {"$anchor", kAnnotation, ""}, {"$comment", kAnnotation, ""}, {"deprecated", kAnnotation, ""},
    {"readOnly", kAnnotation, ""}, {"writeOnly", kAnnotation, ""}, {"contentEncoding", kAnnotation, ""},
    {"contentMediaType", kAnnotation, ""}, {"contentSchema", kAnnotation, ""}, {"$vocabulary", kAnnotation, ""},
    {"externalDocs", kAnnotation, ""}, {"xml", kAnnotation, ""}, {"discriminator", kAnnotation, ""},
    {"strict", kAnnotation, ""}, {"name", kAnnotation, ""},

    {"not", kRefused, ""}, {"if", kRefused, ""}, {"then", kRefused, ""}, {"else", kRefused, ""},
    {"dependentRequired", kRefused, ""}, {"dependentSchemas", kRefused, ""}, {"dependencies", kRefused, ""},
    {"contains", kRefused, ""}, {"minContains", kRefused, ""}, {"maxContains", kRefused, ""},
    {"unevaluatedItems", kRefused, ""}, {"unevaluatedProperties", kRefused, "use additionalProperties"},
    {"additionalItems", kRefused, "use prefixItems and items"}, {"$dynamicRef", kRefused, ""},
    {"$dynamicAnchor", kRefused, ""}, {"$recursiveRef", kRefused, ""}, {"$recursiveAnchor", kRefused, ""},
});

// Dates with the days that their months have; years 0001 to 9999. Seconds up to 59: few parsers know leap seconds.
#define YEAR R"((?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9]))"
#define LEAP R"((?:\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00))"
#define DATE                                                                                    \
  "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
  "|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
#define TIME R"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))"
#define OCTET R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"
#define IPV4 OCTET R"((?:\.)" OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define PCHAR R"((?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2}))"

constexpr std::array kFormats = std::to_array<StringFormat>({
    {"date-time", DATE "T" TIME, "RFC 3339; up to nine digits behind the second"},
    {"date", DATE, "real days of the years 0001 to 9999"},
    {"time", TIME, "with Z or an offset"},
    {"duration",
     R"(P(?:\d+W|(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)"
     R"(|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)))",
     "ISO 8601 as in RFC 3339"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", ""},
    {"email", R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@)" LABEL R"((?:\.)" LABEL ")+",
     "ASCII, without quotes and comments"},
    {"hostname", LABEL R"((?:\.)" LABEL "){0,7}", "up to eight labels"},
    {"ipv4", IPV4, ""},
    {"ipv6",
     "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,7}:|(?:" H16 ":){1,6}:" H16 "|(?:" H16 ":){1,5}(?::" H16 "){1,2}|(?:" H16
     ":){1,4}(?::" H16 "){1,3}|(?:" H16 ":){1,3}(?::" H16 "){1,4}|(?:" H16 ":){1,2}(?::" H16 "){1,5}|" H16 ":(?::" H16
     "){1,6}|:(?::" H16 "){1,7}|::)",
     "without zones and embedded IPv4"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\\d{1,5})?(?:[/?]" PCHAR "*)?|[A-Za-z0-9]" PCHAR
            "*)(?:#" PCHAR "*)?",
     "ASCII; hosts by name or IPv4"},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*", ""},

    {"password", "", ""}, {"binary", "", ""}, {"byte", "", ""}, {"int32", "", ""}, {"int64", "", ""},
    {"float", "", ""}, {"double", "", ""}, {"path", "", ""}, {"file-path", "", ""}, {"directory-path", "", ""},
    {"textarea", "", ""}, {"markdown", "", ""}, {"color", "", ""},
});

}  // namespace

std::span<const SchemaKeyword> schema_keywords() { return kKeywords; }

const SchemaKeyword* find_keyword(std::string_view name) {
  const auto* found = std::find_if(kKeywords.begin(), kKeywords.end(), [&](const SchemaKeyword& k) { return k.name == name; });
  return found == kKeywords.end() ? nullptr : found;
}

std::span<const StringFormat> string_formats() { return kFormats; }

const StringFormat* find_format(std::string_view name) {
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(), [&](const StringFormat& f) { return f.name == name; });
  return found == kFormats.end() ? nullptr : found;
}

}  // namespace slipstream::grammar
