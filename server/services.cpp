// Derived facts of the served model; see services.h.
#include "server/services.h"

#include <algorithm>
#include <ctime>

#include "engine/grammar/grammar_cache.h"
#include "server/api/response_store.h"
#include "server/build_info.h"
#include "server/sha256.h"

namespace slipstream {

void complete(Services* services) {
  const ModelInfo& model = services->model;
  // what must be equal for two answers to be comparable: program, model, context
  const std::string facts = std::string(kVersion) + "|" + (model.names.empty() ? "" : model.names.front()) + "|" +
                            model.architecture + "|" + model.format + "|" + std::to_string(model.vocab) + "|" +
                            model.build_facts;
  if (services->model.created == 0) services->model.created = static_cast<int64_t>(std::time(nullptr));
  services->fingerprint = "fp_" + to_hex(sha256(facts)).substr(0, 12);
  int64_t longest = 1;
  for (int32_t id = 0; id < services->tokenizer->vocab_size(); ++id)
    longest = std::max(longest, static_cast<int64_t>(services->tokenizer->token_bytes(id).size()));
  services->longest_token_bytes = longest;
  services->grammars = std::make_shared<grammar::GrammarCache>(services->tokenizer);
  const EngineConfig& engine = services->config.engine;
  services->output_format = std::make_shared<const output::OutputFormat>(output::find_output_format(
      services->chat_template.get(), *services->tokenizer, engine.reasoning_parser, engine.tool_call_parser));
  services->responses = std::make_shared<api::ResponseStore>(int64_t{services->config.server.response_store_mb} << 20);
}

}  // namespace slipstream
