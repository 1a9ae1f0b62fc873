// Normalizer, pre-tokenizer and decoder of a tokenizer.json: each known type to our step, the others refused by name.
#include "engine/text/tokenizer_json.h"

namespace slipstream::tokenizer_json {
namespace {

using Behavior = PreTokenizer::Behavior;

constexpr std::string_view kMark = "\xE2\x96\x81";

Error unknown_type(std::string_view place, const std::string& type, std::string_view known) {
  return unsupported("tokenizer.json: " + std::string(place) + " \"" + type + "\" is not supported; known are " +
                     std::string(known));
}

/// pattern: {"Regex": …} or {"String": …}.
Result<std::string> expression_of(const Json& step) {
  const Json* pattern = member(step, "pattern");
  if (pattern == nullptr) return corrupt("tokenizer.json: a step has no pattern");
  if (pattern->is_string()) return quote_expression(pattern->get_ref<const std::string&>());
  if (const Json* regex = member(*pattern, "Regex"); regex != nullptr && regex->is_string())
    return regex->get<std::string>();
  if (const Json* literal = member(*pattern, "String"); literal != nullptr && literal->is_string())
    return quote_expression(literal->get_ref<const std::string&>());
  return corrupt("tokenizer.json: a pattern is neither {\"Regex\": …} nor {\"String\": …}");
}

Result<Behavior> behavior_of(const Json& step, std::string_view otherwise) {
  SLIP_TRY(const std::string name, string(step, "behavior", otherwise));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Contiguous") return Behavior::kContiguous;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  return unknown_type("split behavior", name, "Removed, Isolated, Contiguous, MergedWithPrevious, MergedWithNext");
}

Result<PreTokenizer::Prefix> prefix_of(const Json& step) {
  SLIP_TRY(const bool prefix_space, boolean(step, "add_prefix_space", true));
  SLIP_TRY(const std::string scheme, string(step, "prepend_scheme", prefix_space ? "always" : "never"));
  if (scheme == "always") return PreTokenizer::Prefix::kAlways;
  if (scheme == "first") return PreTokenizer::Prefix::kFirst;
  if (scheme == "never") return PreTokenizer::Prefix::kNever;
  return unknown_type("prepend_scheme", scheme, "always, first, never");
}

template <typename Each>
Status for_each(const Json& step, const char* key, Each each) {
  const Json* list = member(step, key);
  if (list == nullptr || !list->is_array())
    return corrupt(std::string("tokenizer.json: a Sequence has no list \"") + key + "\"");
  for (const Json& item : *list) {
    if (type_of(item) == "Sequence") return unsupported("tokenizer.json: a Sequence inside a Sequence");
    SLIP_RETURN_IF_ERROR(each(item));
  }
  return Ok{};
}

}  // namespace

Status add_normalizer(const Json& step, Normalizer* out) {
  const std::string type = type_of(step);
  if (type == "Sequence")
    return for_each(step, "normalizers", [&](const Json& item) { return add_normalizer(item, out); });
  if (type == "NFC") {
    out->add(Normalizer::NormalForm{unicode::Form::kNfc});
  } else if (type == "NFD") {
    out->add(Normalizer::NormalForm{unicode::Form::kNfd});
  } else if (type == "NFKC") {
    out->add(Normalizer::NormalForm{unicode::Form::kNfkc});
  } else if (type == "NFKD") {
    out->add(Normalizer::NormalForm{unicode::Form::kNfkd});
  } else if (type == "Lowercase") {
    out->add(Normalizer::Lowercase{});
  } else if (type == "Strip") {
    SLIP_TRY(const bool left, boolean(step, "strip_left", true));
    SLIP_TRY(const bool right, boolean(step, "strip_right", true));
    out->add(Normalizer::Strip{left, right});
  } else if (type == "Prepend") {
    SLIP_TRY(std::string prefix, string(step, "prepend", ""));
    out->add(Normalizer::Prepend{std::move(prefix)});
  } else if (type == "Replace") {
    SLIP_TRY(std::string to, string(step, "content", ""));
    const Json* pattern = member(step, "pattern");
    const Json* literal = pattern == nullptr ? nullptr : member(*pattern, "String");
    if (literal != nullptr && literal->is_string() && !literal->get_ref<const std::string&>().empty()) {
      out->add(Normalizer::Replace{literal->get<std::string>(), std::move(to)});
    } else {
      SLIP_TRY(const std::string expression, expression_of(step));
      SLIP_TRY(Pattern compiled, Pattern::compile(expression));
      out->add(Normalizer::ReplacePattern{std::move(compiled), std::move(to)});
    }
  } else {
    return unknown_type("normalizer", type, "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, Sequence");
  }
  return Ok{};
}

Status add_pretokenizer(const Json& step, PreTokenizer* out) {
  const std::string type = type_of(step);
  if (type == "Sequence")
    return for_each(step, "pretokenizers", [&](const Json& item) { return add_pretokenizer(item, out); });
  if (type == "Split") {
    SLIP_TRY(const std::string expression, expression_of(step));
    SLIP_TRY(Pattern pattern, Pattern::compile(expression));
    SLIP_TRY(const Behavior behavior, behavior_of(step, "Isolated"));
    SLIP_TRY(const bool invert, boolean(step, "invert", false));
    out->add(PreTokenizer::Split{std::move(pattern), behavior, invert});
  } else if (type == "Digits") {
    SLIP_TRY(const bool individual, boolean(step, "individual_digits", false));
    out->add(PreTokenizer::Digits{individual});
  } else if (type == "Punctuation") {
    SLIP_TRY(const Behavior behavior, behavior_of(step, "Isolated"));
    out->add(PreTokenizer::Punctuation{behavior});
  } else if (type == "ByteLevel") {
    if (out->byte_level()) return unsupported("tokenizer.json: two ByteLevel pre-tokenizers");
    SLIP_TRY(const bool prefix, boolean(step, "add_prefix_space", true));
    SLIP_TRY(const bool expression, boolean(step, "use_regex", true));
    out->add(PreTokenizer::ByteLevel{prefix, expression});
  } else if (type == "Metaspace") {
    SLIP_TRY(std::string mark, string(step, "replacement", kMark));
    if (mark != kMark) return unsupported("tokenizer.json: Metaspace with the replacement \"" + mark + "\"");
    SLIP_TRY(const PreTokenizer::Prefix prefix, prefix_of(step));
    SLIP_TRY(const bool split, boolean(step, "split", true));
    out->add(PreTokenizer::Metaspace{std::move(mark), prefix, split});
  } else if (type == "WhitespaceSplit" || type == "Whitespace") {
    SLIP_TRY(Pattern pattern, Pattern::compile(type == "Whitespace" ? R"(\w+|[^\w\s]+)" : R"(\s)"));
    out->add(PreTokenizer::Split{std::move(pattern), Behavior::kRemoved, type == "Whitespace"});
  } else {
    return unknown_type("pre-tokenizer", type,
                        "Split, Digits, Punctuation, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Sequence");
  }
  return Ok{};
}

Status add_decoder(const Json& step, Decoding* out) {
  const std::string type = type_of(step);
  if (type == "Sequence") return for_each(step, "decoders", [&](const Json& item) { return add_decoder(item, out); });
  if (type == "ByteLevel") {
    out->byte_level = true;
  } else if (type == "ByteFallback") {
    out->bytes = true;
  } else if (type == "Metaspace") {
    out->marks = true;
    SLIP_TRY(const PreTokenizer::Prefix prefix, prefix_of(step));
    out->drops_first_space = prefix != PreTokenizer::Prefix::kNever;
  } else if (type == "Replace") {
    const Json* pattern = member(step, "pattern");
    const Json* literal = pattern == nullptr ? nullptr : member(*pattern, "String");
    SLIP_TRY(const std::string to, string(step, "content", ""));
    if (literal == nullptr || *literal != std::string(kMark) || to != " ")
      return unsupported("tokenizer.json: a Replace decoder other than U+2581 to a space");
    out->marks = true;
  } else if (type == "Strip") {
    SLIP_TRY(const std::string content, string(step, "content", " "));
    const Json* start = member(step, "start");
    const Json* stop = member(step, "stop");
    if (content != " " || start == nullptr || !start->is_number_integer() || *start > 1 ||
        (stop != nullptr && *stop != 0))
      return unsupported("tokenizer.json: a Strip decoder other than one space at the start");
    out->drops_first_space = *start == 1;
  } else if (type != "Fuse") {
    return unknown_type("decoder", type, "ByteLevel, ByteFallback, Metaspace, Replace, Strip, Fuse, Sequence");
  }
  return Ok{};
}

}  // namespace slipstream::tokenizer_json
