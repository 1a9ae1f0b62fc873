// Plain settings of one server, each with its unit and default. Filled by config/load (CLI > environment > YAML >
// defaults); no parsing here, no behaviour.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace slipstream {

struct ServerConfig {
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::string ops_host = "127.0.0.1";
  int32_t ops_port = 8001;                 // second listener: health and metrics only; 0 switches it off
  std::vector<std::string> served_model_names;  // default: the model's own name
  bool any_model_name = false;             // accept every `model` in requests
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string metrics_api_key;
  std::vector<std::string> allowed_origins;  // CORS; empty: no CORS headers
  bool web_page = true;                    // the chat page at /
  int32_t response_store_mb = 64;          // stored responses of /v1/responses; 0: none
  int32_t max_streams = 256;               // handlers at once; health is served beside them
  int32_t max_connections = 1024;
  int32_t shutdown_timeout_s = 25;
  int32_t request_timeout_s = 3600;
  int32_t keep_alive_comment_s = 15;       // SSE comment when the scheduler made progress but no token is due
  std::string metrics_prefix = "slipstream";  // "vllm" emits vLLM's names
  std::string log_level = "info";          // trace, debug, info, warn, error
  std::string log_format = "text";         // text or json
  bool log_requests = false;               // adds parameters (never prompt text) to the access line
};

struct SpeculativeConfig {
  std::string method;                      // "", "ngram", "dflash"
  std::string model;                       // dflash: path or hub id of the drafter
  std::string profile;                     // dflash: what calibrate-drafter wrote, in place of the drafter's own config; "" none
  int32_t num_speculative_tokens = 0;
  std::string policy = "adaptive";         // adaptive, fixed, off
  std::string synthetic_acceptance;        // benchmarks: an acceptance length or rates (engine/spec/synthetic_acceptance.h)
  bool allow_synthetic = false;            // that, with weights that could answer
  int32_t prompt_lookup_min = 2, prompt_lookup_max = 4;  // ngram
};

struct EngineConfig {
  std::string model;                       // path, .gguf or hub id
  std::string backend = "auto";            // auto, cuda, cpu, reference
  int32_t threads = 0;                     // CPU backend; 0: all available cores
  std::string cpu_isa;                     // "", scalar, avx2, avx512vnni
  std::string cuda_feature_level;          // "", sm80, sm86, sm89, sm120 (tests)
  std::string load_format = "auto";        // auto, dummy
  std::string dummy_format = "auto";       // of dummy matrices: auto (the config's dtype), bf16, q4_k …
  uint64_t seed = 0;                       // of dummy weights, and of requests without a seed when > 0
  int32_t max_model_len = 0;               // 0: what fits, at most the model's context
  int32_t max_num_seqs = 0;                // 0: by backend and memory (server/memory_plan.h)
  int32_t max_num_batched_tokens = 0;      // 0: the same
  int32_t max_num_queued_reqs = 256;
  int64_t max_num_queued_tokens = 1 << 20;
  bool enable_prefix_caching = true;
  std::string kv_cache_dtype = "auto";     // auto, f32, f16, bf16, fp8
  int64_t kv_cache_memory_bytes = 0;       // 0: from free memory
  double gpu_memory_utilization = 0.9;
  int32_t block_size = 32;                 // tokens; a multiple of 32
  int32_t tensor_parallel_size = 1;
  int32_t step_budget_ms = 50;
  int32_t watchdog_s = 30;
  bool enforce_eager = false;
  bool deterministic = false;              // CUDA: row-exact kernels
  std::string chat_template;               // a file, or "" for the model's own
  std::string default_chat_template_kwargs;  // JSON object text
  std::string tool_call_parser = "auto";   // auto, none or a form of calls
  std::string reasoning_parser = "auto";   // auto, none or a form of thoughts
  std::string generation_config = "auto";  // auto, vllm (neutral defaults) or a folder
  SpeculativeConfig speculative;
};

struct Config {
  ServerConfig server;
  EngineConfig engine;
  /// Long flag name -> "default", "config.yaml:12", "env SLIPSTREAM_PORT" or "--port"; for --print-config.
  std::map<std::string, std::string> source;
  std::vector<std::string> warnings;       // one line each; printed at start-up
};

}  // namespace slipstream
