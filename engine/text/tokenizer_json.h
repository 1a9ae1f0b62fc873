// Parts of the tokenizer.json loader that are files of their own. Include only where JSON is parsed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/text/bpe_tokenizer.h"

namespace slipstream::tokenizer_json {

using Json = nlohmann::json;

/// The tokenizer of a whole file's text; still open to what other files say (parts()).
Result<std::unique_ptr<BpeTokenizer>> load(std::string_view text);

/// obj[key] when obj is an object that has it and it is not null, else nullptr.
const Json* member(const Json& object, const char* key);
Result<bool> boolean(const Json& object, const char* key, bool otherwise);
Result<std::string> string(const Json& object, const char* key, std::string_view otherwise);
/// The "type" of a step; empty when missing.
std::string type_of(const Json& step);

Status add_normalizer(const Json& step, Normalizer* out);
Status add_pretokenizer(const Json& step, PreTokenizer* out);

/// How ids become text.
struct Decoding {
  bool byte_level = false;
  bool marks = false;   // U+2581 is a space
  bool bytes = false;   // <0xXX> is a byte
  bool drops_first_space = false;
};
Status add_decoder(const Json& step, Decoding* out);

}  // namespace slipstream::tokenizer_json
