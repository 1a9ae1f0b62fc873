// What the routes need from the rest of the program, handed over once the model is loaded. Borrowed by handlers on many
// threads; everything here is const or thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/model/model_config.h"
#include "engine/run/engine.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/memory_plan.h"
#include "server/output/output_format.h"

namespace slipstream::grammar {
class GrammarCache;
}

namespace slipstream {

namespace api {
class ResponseStore;
}

/// Facts about the served model that clients and operators may see.
struct ModelInfo {
  std::vector<std::string> names;      // the first is canonical
  std::string architecture;
  std::string format;                  // "gguf", "safetensors", "dummy"
  int32_t context_length = 0;          // prompt + output, as served
  int32_t vocab = 0;                   // logits width: the bound of every token id in a request
  std::vector<int32_t> eos_ids;
  GenerationDefaults defaults;
  std::string kernel_report = "null";  // JSON text: which kernel runs for each op, and why
  std::string machine_report = "null";  // JSON text: the processor it runs on
  std::string build_facts;             // what answers depend on: weights, backend, kernels, cache dtype
  std::string cache_dtype;             // "BF16", "F8_E4M3"
  std::string load_report = "null";    // JSON text: bytes, formats, seconds
  std::string drafter_report = "null"; // JSON text: the drafter model, its conventions and its self-check
  std::string speculation_report = "null";  // JSON text: method, policy, and why there are no drafts
  std::vector<MemoryLine> memory;      // planned before loading, measured after
  int64_t created = 0;                 // Unix seconds
};

struct Services {
  Engine* engine = nullptr;                            // never null
  std::shared_ptr<const Tokenizer> tokenizer;          // never null
  std::shared_ptr<const ChatTemplate> chat_template;   // null: the model has none
  ModelInfo model;
  Config config;
  std::string fingerprint;                             // system_fingerprint
  int64_t longest_token_bytes = 1;                     // of the vocabulary: bounds tokens by bytes
  std::shared_ptr<const output::OutputFormat> output_format;  // how the model writes thoughts and calls; never null
  std::shared_ptr<api::ResponseStore> responses;       // never null
  std::shared_ptr<grammar::GrammarCache> grammars;     // of the vocabulary; never null
};

/// Fills fingerprint, longest_token_bytes, grammars, output_format, responses and model.created from the rest.
void complete(Services* services);

}  // namespace slipstream
