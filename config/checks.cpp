// Cross-field checks.
#include "config/checks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "config/value.h"

namespace slipstream::config {
namespace {

std::string source_of(const Config& config, const std::string& name) {
  const auto it = config.source.find(name);
  return it == config.source.end() || it->second == "default" ? "" : " (" + it->second + ")";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

Status check_server(Config& config) {
  ServerConfig& server = config.server;
  if (server.host.empty()) return invalid_argument("host is empty; give an address such as 127.0.0.1 or 0.0.0.0", "host");
  if (server.ops_port != 0 && server.ops_port == server.port &&
      (server.ops_host == server.host || server.host == "0.0.0.0" || server.host == "::")) {
    return invalid_argument("port and ops-port are both " + std::to_string(server.port) +
                                "; choose another ops-port, or 0 for none",
                            "ops-port");
  }
  if (server.max_connections < server.max_streams) {
    return invalid_argument("max-connections " + std::to_string(server.max_connections) + " is below max-streams " +
                                std::to_string(server.max_streams) + "; raise the first or lower the second",
                            "max-connections");
  }
  const std::string& prefix = server.metrics_prefix;
  const bool valid_prefix = !prefix.empty() && prefix.size() <= 64 &&
                            std::isdigit(static_cast<unsigned char>(prefix[0])) == 0 &&
                            std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
                              return c < 128 && (std::isalnum(c) != 0 || c == '_');
                            });
  if (!valid_prefix) {
    return invalid_argument("metrics-prefix" + source_of(config, "metrics-prefix") + ": " + in_quotes(prefix) +
                                " is not a name of letters, digits and _",
                            "metrics-prefix");
  }
  std::set<std::string> names;
  for (const std::string& name : server.served_model_names) {
    if (!names.insert(name).second) {
      return invalid_argument("served-model-name: " + in_quotes(name) + " is given twice; keep one", "served-model-name");
    }
  }
  for (const std::string& origin : server.allowed_origins) {
    if (origin != "*" && origin != "null" && origin.find("://") == std::string::npos) {
      return invalid_argument("allowed-origins: " + in_quotes(origin) + " is no origin; write https://host, or *",
                              "allowed-origins");
    }
  }
  if (!is_loopback(server.host) && server.api_keys.empty() && server.api_key_file.empty()) {
    config.warnings.push_back("anyone who reaches " + server.host + ":" + std::to_string(server.port) +
                              " can use the model: set --api-key-file, or --host 127.0.0.1");
  }
  return Ok{};
}

Status check_engine(Config& config) {
  EngineConfig& engine = config.engine;
  if (engine.block_size % 32 != 0) {
    return invalid_argument("block-size " + std::to_string(engine.block_size) + " is not a multiple of 32",
                            "block-size");
  }
  if (engine.dummy_format != "auto" && engine.load_format != "dummy") {
    return invalid_argument("dummy-format " + engine.dummy_format + " needs --load-format dummy; weights of files keep theirs",
                            "dummy-format");
  }
  if (engine.max_num_batched_tokens > 0 && engine.max_num_batched_tokens < engine.max_num_seqs) {
    return invalid_argument("max-num-batched-tokens " + std::to_string(engine.max_num_batched_tokens) +
                                " is below max-num-seqs " + std::to_string(engine.max_num_seqs) +
                                ", so not every sequence could move in a step; raise the first or lower the second",
                            "max-num-batched-tokens");
  }
  if (!engine.default_chat_template_kwargs.empty()) {
    const auto value = nlohmann::json::parse(engine.default_chat_template_kwargs, nullptr, false);
    if (!value.is_object()) {
      return invalid_argument("default-chat-template-kwargs" + source_of(config, "default-chat-template-kwargs") +
                                  ": " + in_quotes(engine.default_chat_template_kwargs) +
                                  " is not a JSON object, such as {\"enable_thinking\": false}",
                              "default-chat-template-kwargs");
    }
  }
  if (engine.enforce_eager && engine.backend != "cuda") {
    config.warnings.push_back("enforce-eager" + source_of(config, "enforce-eager") +
                              " has no effect without a GPU: the CPU backends always launch ops one by one");
  }
  if (engine.deterministic && engine.backend != "cuda") {
    config.warnings.push_back("deterministic" + source_of(config, "deterministic") +
                              " changes nothing without a GPU: the CPU backends always are");
  }
  if (!engine.cuda_feature_level.empty() && engine.backend != "cuda") {
    return invalid_argument("cuda-feature-level" + source_of(config, "cuda-feature-level") + ": " + engine.cuda_feature_level +
                                " needs --backend cuda, not " + engine.backend + "; leave it out to use all that a GPU has",
                            "cuda-feature-level");
  }
  const SpeculativeConfig& spec = engine.speculative;
  if (spec.prompt_lookup_min > spec.prompt_lookup_max) {
    return invalid_argument("speculative-config.prompt-lookup-min " + std::to_string(spec.prompt_lookup_min) +
                                " is above prompt-lookup-max " + std::to_string(spec.prompt_lookup_max),
                            "speculative-config.prompt-lookup-min");
  }
  if (spec.method.empty() && (spec.num_speculative_tokens > 0 || !spec.model.empty())) {
    return invalid_argument("speculative-config has no method; add \"method\": \"" + std::string(spec.model.empty() ? "ngram" : "dflash") +
                                "\", or leave it out",
                            "speculative-config.method");
  }
  if (spec.method == "dflash" && spec.model.empty())
    return invalid_argument("speculative-config.method dflash needs a drafter; add \"model\": \"PATH\", or use ngram", "speculative-config.model");
  if (spec.method == "ngram" && !spec.model.empty())
    return invalid_argument("speculative-config.model " + spec.model + " is not used by method ngram; use method dflash, or leave it out",
                            "speculative-config.model");
  if (spec.synthetic_acceptance.empty()) {
    if (spec.allow_synthetic) config.warnings.push_back("speculative-config.allow-synthetic changes nothing without synthetic-acceptance");
  } else if (spec.method.empty() || spec.policy == "off") {
    return invalid_argument("speculative-config.synthetic-acceptance needs drafts to accept; give a method and a policy other than off",
                            "speculative-config.synthetic-acceptance");
  } else if (engine.load_format != "dummy" && !spec.allow_synthetic) {
    return invalid_argument("speculative-config.synthetic-acceptance makes answers meaningless; use it with --load-format dummy, or say "
                            "--speculative-config.allow-synthetic", "speculative-config.synthetic-acceptance");
  }
  if (spec.method != "dflash" && !spec.profile.empty())
    return invalid_argument("speculative-config.profile " + spec.profile + " belongs to a drafter of method dflash; leave it out",
                            "speculative-config.profile");
  return Ok{};
}

}  // namespace

Status check_config(Config& config) {
  SLIP_RETURN_IF_ERROR(check_server(config));
  return check_engine(config);
}

}  // namespace slipstream::config
