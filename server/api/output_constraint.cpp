// See output_constraint.h.
#include "server/api/output_constraint.h"

#include <algorithm>

#include "engine/grammar/grammar_cache.h"
#include "engine/sample/all_of.h"
#include "engine/sample/allowed_tokens.h"
#include "engine/sample/bad_words.h"

namespace slipstream::api {

Status add_token_rules(const Services& services, const GenerationRequest& request,
                       std::vector<std::shared_ptr<const ConstraintSpec>>* parts) {
  if (!request.allowed_token_ids.empty()) parts->push_back(std::make_shared<const AllowedTokens>(request.allowed_token_ids));
  if (request.bad_words.empty()) return Ok{};
  // At the beginning of a text and behind other words: most vocabularies spell the two differently.
  std::vector<std::vector<int32_t>> sequences;
  for (const std::string& word : request.bad_words)
    for (const std::string& text : {word, " " + word}) {
      SLIP_TRY(auto ids, services.tokenizer->encode(text, /*parse_special=*/false));
      if (!ids.empty() && std::ranges::find(sequences, ids) == sequences.end()) sequences.push_back(std::move(ids));
    }
  parts->push_back(std::make_shared<const BadWords>(sequences));
  return Ok{};
}

Status constrain_completion(const Services& services, GenerationRequest* request) {
  std::vector<std::shared_ptr<const ConstraintSpec>> parts;
  if (request->output) {
    SLIP_TRY(auto format, services.grammars->constraint(*request->output));
    parts.push_back(std::move(format));
  }
  SLIP_RETURN_IF_ERROR(add_token_rules(services, *request, &parts));
  request->constraint = all_of(std::move(parts));
  return Ok{};
}

}  // namespace slipstream::api
