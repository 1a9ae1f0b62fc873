// Rows of the flag table: flags of vLLM, SGLang, TensorRT-LLM and llama-server that have no effect here, or that ask
// for something not served. A row says why, and what to do instead.
#include "config/flag.h"

namespace slipstream::config {
namespace {

constexpr Arity kSwitch = Arity::kFlag;
constexpr Arity kValue = Arity::kValue;

struct Row {
  std::string_view name;
  Arity arity;
  std::string_view why;
  std::vector<Alias> aliases = {};
};

constexpr std::string_view kPolicyDecides =
    "speculative-config.policy adaptive decides how many drafts are worth it, from measured times and acceptance";
constexpr std::string_view kWithTarget = "a drafter runs where its target runs";

std::vector<Row> no_effect_rows() {
  return {
      {"enable-metrics", kSwitch, "metrics are always on", {{"metrics"}, {"enable-request-metrics"}}},
      {"disable-log-stats", kSwitch, "statistics are read from /metrics"},
      {"enable-chunked-prefill", kSwitch, "prompts are always chunked"},
      {"async-scheduling", kSwitch, "steps are always planned one ahead", {{"enable-overlap-schedule"}}},
      {"disable-overlap-schedule", kSwitch, "steps are always planned one ahead"},
      {"trust-remote-code", kSwitch, "no code from a model's folder is ever run"},
      {"distributed-executor-backend", kValue, "ranks are threads of one process"},
      {"disable-custom-all-reduce", kSwitch, "there is one way in which ranks exchange data"},
      {"attention-backend", kValue, "the program chooses its kernels; /v1/info says which"},
      {"sampling-backend", kValue, "the program chooses its kernels; /v1/info says which"},
      {"compilation-config", kValue, "nothing is compiled at start-up", {{"O"}}},
      {"cuda-graph-max-bs", kValue, "graphs are sized by the program; --enforce-eager switches them off", {{"cuda-graph-sizes"}}},
      {"swap-space", kValue, "preempted requests are computed again"},
      {"dtype", kValue, "weights keep the format of their file"},
      {"max-logprobs", kValue, "the bound is 20, as in the API"},
      {"max-seq-len-to-capture", kValue, "graphs are sized by the program; --enforce-eager switches them off"},
      {"download-dir", kValue, "nothing is downloaded; HF_HOME says where the local hub cache is"},
      {"revision", kValue, "nothing is downloaded; give the folder of the snapshot as MODEL"},
      {"tokenizer-mode", kValue, "there is one tokenizer"},
      {"tokenizer-pool-size", kValue, "requests are tokenised on their own threads"},
      {"disable-frontend-multiprocessing", kSwitch, "there is one process"},
      {"api-server-count", kValue, "there is one process"},
      {"disable-uvicorn-access-log", kSwitch, "--log-level warn hides the access lines"},
      {"enable-prompt-tokens-details", kSwitch, "usage always has them"},
      {"enable-cache-report", kSwitch, "usage always has the cached tokens"},
      {"stream-interval", kValue, "every token is sent when it is there"},
      {"schedule-policy", kValue, "requests start in order of arrival and priority"},
      {"scheduling-policy", kValue, "requests start in order of arrival and priority"},
      {"n-gpu-layers", kValue, "the backend holds all layers", {{"gpu-layers"}, {"ngl"}}},
      {"flash-attn", kValue, "the program has one attention", {{"fa"}}},
      {"fit", kValue, "the context and the cache are sized from free memory at start-up", {{"fit-ctx"}, {"fit-target"}}},
      {"mlock", kSwitch, "weights are mapped; the host's memory limit decides"},
      {"mmap", kSwitch, "weights are mapped where their format is used as it is", {{"no-mmap"}}},
      {"numa", kValue, "threads go where the process may run; use numactl"},
      {"jinja", kSwitch, "templates are always Jinja"},
      {"cont-batching", kSwitch, "batching is always continuous", {{"cb"}}},
      {"slots", kSwitch, "/v1/info shows the state"},
      {"props", kSwitch, "/v1/info shows the state"},
      {"warmup", kSwitch, "a warm-up pass always runs before readiness"},
      {"enable-auto-tool-choice", kSwitch, "tools are served without it"},
      {"skip-server-warmup", kSwitch, "a warm-up pass always runs before readiness"},
      {"log-verbosity", kValue, "use --log-level", {{"lv"}, {"verbosity"}}},
      {"log-disable", kSwitch, "use --log-level error"},
      {"threads-batch", kValue, "one thread pool does prompts and decoding", {{"tb"}}},
      {"speculative-num-steps", kValue, "a DFlash block is drafted in one pass; speculative-config.num-speculative-tokens bounds its drafts"},
      {"spec-draft-n-min", kValue, kPolicyDecides, {{"draft-min"}, {"draft-n-min"}}},
      {"spec-draft-p-min", kValue, kPolicyDecides, {{"draft-p-min"}, {"spec-draft-p-split"}, {"draft-p-split"}}},
      {"speculative-config.disable-by-batch-size", kValue, kPolicyDecides, {{"speculative-disable-by-batch-size"}}},
      {"gpu-layers-draft", kValue, kWithTarget, {{"n-gpu-layers-draft"}, {"ngld"}, {"spec-draft-ngl"}}},
      {"device-draft", kValue, kWithTarget, {{"devd"}, {"spec-draft-device"}}},
      {"threads-draft", kValue, kWithTarget, {{"td"}, {"threads-batch-draft"}, {"tbd"}}},
      {"ctx-size-draft", kValue, "the drafter's context is that of the target, up to its own", {{"cd"}, {"speculative-config.max-model-len"}}},
      {"cache-type-k-draft", kValue, "the drafter's context has the target's cache type", {{"ctkd"}, {"cache-type-v-draft"}, {"ctvd"}}},
      {"speculative-draft-attention-backend", kValue, "the program chooses its kernels; /v1/info says which", {{"speculative-attention-mode"}}},
      {"speculative-draft-model-revision", kValue, "nothing is downloaded; give the folder of the snapshot", {{"speculative-config.revision"}}},
      {"keep", kValue, "a context is never shifted; a request that does not fit gets 400"},
  };
}

std::vector<Row> refused_rows() {
  constexpr std::string_view lora = "LoRA adapters are not served; merge the adapter into the model";
  constexpr std::string_view tls = "TLS is not served; put a proxy such as nginx or Envoy in front";
  constexpr std::string_view dp = "one process serves one replica; start several behind a gateway";
  constexpr std::string_view grammar = "requests ask for formats, and there is one engine for them; leave it out";
  constexpr std::string_view hub = "nothing is downloaded; give a folder, a .gguf file or a hub id in the local cache";
  constexpr std::string_view media = "images, audio and video are not served; text only";
  constexpr std::string_view trace = "traces are not exported; use /metrics and the access log";
  constexpr std::string_view offload = "weights and KV cache stay in one memory; use a smaller model or context";
  return {
      {"enable-lora", kSwitch, lora},
      {"lora-modules", kValue, lora, {{"lora-paths"}, {"lora"}, {"lora-scaled"}, {"lora-dir"}}},
      {"max-loras", kValue, lora, {{"max-loras-per-batch"}, {"max-lora-rank"}, {"max-cpu-loras"}}},
      {"ssl-certfile", kValue, tls, {{"ssl-cert-file"}, {"ssl-ca-certs"}}},
      {"ssl-keyfile", kValue, tls, {{"ssl-key-file"}, {"ssl-keyfile-password"}}},
      {"data-parallel-size", kValue, dp, {{"dp"}, {"dp-size"}, {"data-parallel-size-local"}}},
      {"pipeline-parallel-size", kValue, "layers are not split over ranks; use --tensor-parallel-size",
       {{"pp"}, {"pp-size"}}},
      {"expert-parallel-size", kValue, "experts are split with --tensor-parallel-size", {{"ep"}, {"ep-size"}}},
      {"enable-expert-parallel", kSwitch, "experts are split with --tensor-parallel-size"},
      {"split-mode", kValue, "use --tensor-parallel-size", {{"sm"}, {"tensor-split"}, {"ts"}}},
      {"tool-server", kValue, "tools run at the client; pass them with the request"},
      {"reasoning-format", kValue, "use --reasoning-parser, or reasoning_format in a request", {{"reasoning-budget"}}},
      {"structured-outputs-config", kValue, grammar,
       {{"guided-decoding-backend"}, {"grammar-backend"}, {"grammar"}, {"grammar-file"}, {"json-schema"}}},
      {"hf-repo", kValue, hub, {{"hf"}, {"hfr"}, {"model-url"}, {"mu"}, {"hf-token"}, {"docker-repo"}}},
      {"tokenizer", kValue, "the tokenizer comes with the model; put tokenizer.json into its folder",
       {{"tokenizer-path"}}},
      {"hf-overrides", kValue, "the model's config.json is read as it is; edit a copy"},
      {"rope-scaling", kValue, "RoPE scaling is read from the model's config; edit a copy", {{"rope-theta"}}},
      {"mmproj", kValue, media, {{"limit-mm-per-prompt"}, {"mm-processor-kwargs"}}},
      {"otlp-traces-endpoint", kValue, trace, {{"enable-trace"}}},
      {"cpu-offload-gb", kValue, offload, {{"kv-offloading-size"}}},
      {"enable-hierarchical-cache", kSwitch, offload},
      {"kv-transfer-config", kValue, "prefill and decode run in one process; leave it out"},
      {"disaggregation-mode", kValue, "prefill and decode run in one process; leave it out"},
      {"embedding", kSwitch, "embeddings are not served; text generation only",
       {{"embeddings"}, {"is-embedding"}, {"reranking"}}},
      {"runner", kValue, "text generation only; leave it out", {{"task"}, {"convert"}}},
      {"enable-sleep-mode", kSwitch, "models are not put to sleep; stop the process"},
      {"speculative-eagle-topk", kValue, "drafts are one chain, no tree; leave it out, or use 1"},
      {"speculative-accept-threshold-single", kValue, "drafts are accepted only where they equal what would have been drawn: the text never changes",
       {{"speculative-accept-threshold-acc"}, {"typical-acceptance-sampler-posterior-threshold"}}},
      {"speculative-token-map", kValue, "drafters with a vocabulary of their own are not served; leave it out"},
      {"speculative-draft-model-quantization", kValue, "weights keep the format of their file; give a drafter in the format wanted",
       {{"speculative-config.quantization"}}},
      {"speculative-config.draft-tensor-parallel-size", kValue, "a drafter has as many ranks as its target", {{"spec-tp"}}},
      {"lookup-cache-static", kValue, "ngram looks in the text itself, not in files", {{"lcs"}, {"lookup-cache-dynamic"}, {"lcd"}}},
      {"nnodes", kValue, "one host only; start several replicas behind a gateway", {{"dist-init-addr"}}},
      {"slot-save-path", kValue, "KV caches are not saved to disk"},
      {"admin-api-key", kValue, "there are no admin routes; use --api-key"},
      {"allow-credentials", kSwitch, "CORS answers never allow credentials; requests carry a key instead"},
      {"allowed-methods", kValue, "CORS methods follow from the routes; use --allowed-origins", {{"allowed-headers"}}},
      {"root-path", kValue, "routes are not prefixed; let the proxy strip the prefix", {{"api-prefix"}}},
      {"uds", kValue, "sockets are TCP only; use --host and --port"},
      {"middleware", kValue, "no code is loaded into the server; use a proxy"},
  };
}

constexpr std::string_view kQuantization =
    "is not served; use BF16 or F16 safetensors, or a GGUF file (Q4_0, Q4_K_M, Q8_0, ...)";
constexpr std::string_view kFp8Weights =
    "is told by the checkpoint's own quantization_config: start an FP8 checkpoint without the flag (BF16 weights are not "
    "converted on loading)";

}  // namespace

std::vector<Flag> foreign_flags() {
  std::vector<Flag> rows;
  for (const Row& row : no_effect_rows()) {
    rows.push_back({.name = row.name, .treatment = Treatment::kNoEffect, .group = "No effect", .help = row.why,
                    .arity = row.arity, .aliases = row.aliases});
  }
  Flag quantization{.name = "quantization", .treatment = Treatment::kNoEffect, .group = "No effect",
                    .help = "weights keep the format of their file",
                    .choices = {"auto", "none", "gguf", "None", "bf16"}, .aliases = {{"q"}}};
  for (std::string_view format :
       {"awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "w8a8_int8", "w8a8_fp8", "int4", "int8", "nvfp4",
        "modelopt", "modelopt_fp4", "mxfp4", "bitsandbytes", "quark", "torchao", "hqq", "aqlm",
        "experts_int8", "ptpc_fp8", "moe_wna16"}) {
    quantization.refused_values.emplace_back(format, kQuantization);
  }
  for (std::string_view format : {"fp8", "compressed-tensors"}) quantization.refused_values.emplace_back(format, kFp8Weights);
  rows.push_back(quantization);
  for (const Row& row : refused_rows()) {
    rows.push_back({.name = row.name, .treatment = Treatment::kRefused, .group = "Refused", .help = row.why,
                    .arity = row.arity, .aliases = row.aliases});
    // One rank, one replica, one host is what is served anyway.
    if (row.name.ends_with("-parallel-size") || row.name == "nnodes" || row.name == "speculative-eagle-topk") rows.back().choices = {"1"};
  }
  return rows;
}

}  // namespace slipstream::config
