// Rows of the flag table: the model, the engine, its memory, and speculation.
#include "config/flag.h"

namespace slipstream::config {
namespace {

constexpr std::string_view kShareWarning =
    "means the share of memory for weights and KV cache; it is read as --gpu-memory-utilization (the share of all "
    "memory); --kv-cache-memory-bytes is exact";
constexpr std::string_view kFreeShareWarning =
    "means the share of memory that is free after loading; it is read as --gpu-memory-utilization (the share of all "
    "memory); --kv-cache-memory-bytes is exact";
constexpr std::string_view kNoSmallKv = "KV caches of 8 bits other than E4M3, and of fewer, are not served; use fp8";
constexpr std::string_view kNoDrafter = "is a kind of drafter that is not served; use dflash or ngram, or leave it out";

}  // namespace

std::vector<Flag> engine_flags() {
  std::vector<Flag> rows;
  const std::string_view model = "Model", batch = "Batching", memory = "Memory", machine = "Machine";

  rows.push_back({.name = "model", .field = SLIP_FIELD(engine.model), .group = model, .metavar = "MODEL",
                  .help = "Folder, .gguf file or hub id in the local cache; the same as the positional MODEL.",
                  .aliases = {{"model-path"}, {"m"}}});
  rows.push_back({.name = "load-format", .field = SLIP_FIELD(engine.load_format), .group = model, .metavar = "FORMAT",
                  .help = "auto reads the files; dummy makes random weights of the config's full shape.",
                  .choices = {"auto", "dummy"}, .values = {{"safetensors", "auto"}, {"gguf", "auto"}}});
  rows.push_back({.name = "dummy-format", .field = SLIP_FIELD(engine.dummy_format), .group = model, .metavar = "FORMAT",
                  .help = "Of the matrices that --load-format dummy makes; auto: the dtype of config.json.",
                  .choices = {"auto", "f32", "f16", "bf16", "fp8", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k",
                              "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"},
                  .values = {{"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}}});
  rows.push_back({.name = "seed", .field = SLIP_FIELD(engine.seed), .group = model, .metavar = "N",
                  .help = "Of dummy weights, and (when > 0) of requests that give none.",
                  .aliases = {{"random-seed"}}});
  rows.push_back({.name = "chat-template", .field = SLIP_FIELD(engine.chat_template), .group = model,
                  .metavar = "FILE", .help = "Jinja file used instead of the model's own template.",
                  .aliases = {{"chat-template-file"}}});
  rows.push_back({.name = "default-chat-template-kwargs", .field = SLIP_FIELD(engine.default_chat_template_kwargs),
                  .group = model, .metavar = "JSON", .help = "Template variables that every request gets.",
                  .aliases = {{"chat-template-kwargs"}}, .text_is_json = true});
  rows.push_back({.name = "tool-call-parser", .field = SLIP_FIELD(engine.tool_call_parser), .group = model, .metavar = "NAME",
                  .help = "How the model writes calls; auto: read from its chat template. none: calls stay text.",
                  .choices = {"auto", "none", "hermes", "qwen3_xml", "glm45", "llama3_json", "pythonic", "lfm2", "mistral",
                              "deepseek_v3", "deepseek_v32", "openai"},
                  .values = {{"qwen", "hermes"}, {"qwen25", "hermes"}, {"qwen3", "hermes"}, {"qwen3_coder", "qwen3_xml"},
                             {"glm47", "glm45"}, {"glm4_moe", "glm45"}, {"llama3", "llama3_json"}, {"llama4_json", "llama3_json"},
                             {"llama4_pythonic", "pythonic"}, {"deepseekv3", "deepseek_v3"}, {"deepseekv31", "deepseek_v3"},
                             {"deepseek_v31", "deepseek_v3"}, {"deepseekv32", "deepseek_v32"}, {"gpt-oss", "openai"}, {"gpt_oss", "openai"}}});
  rows.push_back({.name = "reasoning-parser", .field = SLIP_FIELD(engine.reasoning_parser), .group = model, .metavar = "NAME",
                  .help = "How the model writes thoughts; auto: read from its chat template and vocabulary. none: they stay text.",
                  .choices = {"auto", "none", "think", "mistral", "openai"},
                  .values = {{"qwen3", "think"}, {"qwen3-thinking", "think"}, {"deepseek_r1", "think"}, {"deepseek-r1", "think"},
                             {"deepseek_v3", "think"}, {"deepseek-v3", "think"}, {"glm45", "think"}, {"openai_gptoss", "openai"},
                             {"gpt-oss", "openai"}, {"deepseek", "think"}}});
  rows.push_back({.name = "generation-config", .field = SLIP_FIELD(engine.generation_config), .group = model,
                  .metavar = "WHERE",
                  .help = "Sampling defaults: auto (the model's generation_config.json), vllm (neutral) or a folder.",
                  .aliases = {{"sampling-defaults", false, {}, {{"model", "auto"}, {"openai", "vllm"}}}}});

  rows.push_back({.name = "max-model-len", .field = SLIP_FIELD(engine.max_model_len), .group = batch, .metavar = "N",
                  .help = "Context in tokens (32k style works); 0 or auto: what fits, at most the model's own.",
                  .min = 0, .max = 1 << 24, .values = {{"auto", "0"}, {"-1", "0"}},
                  .aliases = {{"context-length"}, {"ctx-size"}, {"c"}, {"max-seq-len"}}});
  rows.push_back({.name = "max-num-seqs", .field = SLIP_FIELD(engine.max_num_seqs), .group = batch, .metavar = "N",
                  .help = "Sequences that run at once; 0 or auto: 16 on a CPU, up to 256 on a GPU, by its memory.",
                  .min = 0, .max = 4096, .values = {{"auto", "0"}},
                  .aliases = {{"max-running-requests"}, {"parallel"}, {"np"}, {"max-batch-size"}}});
  rows.push_back({.name = "max-num-batched-tokens", .field = SLIP_FIELD(engine.max_num_batched_tokens),
                  .group = batch, .metavar = "N",
                  .help = "Tokens of one step, decode and prompt chunks together; 0 or auto: 512 on a CPU, up to 8192 on a GPU.",
                  .min = 0, .max = 1 << 20, .values = {{"auto", "0"}},
                  .aliases = {{"chunked-prefill-size"}, {"max-prefill-tokens"}, {"batch-size"}, {"b"},
                              {"ubatch-size"}, {"ub"}, {"max-num-tokens"}}});
  rows.push_back({.name = "max-num-queued-reqs", .field = SLIP_FIELD(engine.max_num_queued_reqs), .group = batch,
                  .metavar = "N", .help = "Waiting requests; further ones get 429.", .min = 1, .max = 1 << 20,
                  .aliases = {{"max-queued-requests"}, {"max-concurrent-requests"}}});
  rows.push_back({.name = "max-num-queued-tokens", .field = SLIP_FIELD(engine.max_num_queued_tokens), .group = batch,
                  .metavar = "N", .help = "Prompt tokens of all waiting requests; further ones get 429.", .min = 1,
                  .max = 1e12});
  rows.push_back({.name = "step-budget-ms", .field = SLIP_FIELD(engine.step_budget_ms), .group = batch,
                  .metavar = "MS", .help = "Longest step while others decode; it sizes the prompt chunks of a CPU.",
                  .min = 1, .max = 60000});

  rows.push_back({.name = "enable-prefix-caching", .field = SLIP_FIELD(engine.enable_prefix_caching),
                  .group = memory, .help = "Reuse the KV cache of prompts with the same beginning.",
                  .aliases = {{"disable-radix-cache", true}, {"cache-prompt"}}});
  rows.push_back({.name = "kv-cache-dtype", .field = SLIP_FIELD(engine.kv_cache_dtype), .group = memory,
                  .metavar = "TYPE",
                  .help = "auto (bf16, or fp8 where the checkpoint has a kv_cache_scheme), f32, f16, bf16 or fp8 (E4M3: half the memory of bf16, "
                          "coarser values).",
                  .choices = {"auto", "f32", "f16", "bf16", "fp8"},
                  .values = {{"bfloat16", "bf16"}, {"float16", "f16"}, {"fp16", "f16"}, {"half", "f16"}, {"float32", "f32"},
                             {"fp32", "f32"}, {"float", "f32"}, {"fp8_e4m3", "fp8"}, {"fp8_e4m3fn", "fp8"}},
                  .refused_values = {{"fp8_e5m2", kNoSmallKv}, {"int8", kNoSmallKv}, {"nvfp4", kNoSmallKv},
                                     {"fp4_e2m1", kNoSmallKv}, {"q8_0", kNoSmallKv}, {"q4_0", kNoSmallKv},
                                     {"q4_1", kNoSmallKv}, {"q5_0", kNoSmallKv}, {"q5_1", kNoSmallKv},
                                     {"iq4_nl", kNoSmallKv}},
                  .aliases = {{"cache-type-k"}, {"ctk"}, {"cache-type-v"}, {"ctv"}}});
  rows.push_back({.name = "kv-cache-memory-bytes", .field = SLIP_FIELD(engine.kv_cache_memory_bytes),
                  .group = memory, .metavar = "BYTES", .help = "KV cache size (4GiB style works); 0: from free memory.",
                  .min = 0, .max = 1e15, .aliases = {{"kv-cache-memory"}}});
  rows.push_back({.name = "gpu-memory-utilization", .field = SLIP_FIELD(engine.gpu_memory_utilization),
                  .group = memory, .metavar = "SHARE", .help = "Share of the available memory that the KV cache may take; on a GPU, of all its memory for everything.",
                  .min = 0.01, .max = 1,
                  .aliases = {{"mem-fraction-static", false, {}, {}, kShareWarning},
                              {"free-gpu-memory-fraction", false, {}, {}, kFreeShareWarning},
                              {"kv-cache-free-gpu-memory-fraction", false, {}, {}, kFreeShareWarning}}});
  rows.push_back({.name = "block-size", .field = SLIP_FIELD(engine.block_size), .group = memory, .metavar = "N",
                  .help = "Tokens of a KV block; a multiple of 32.", .min = 32, .max = 1024,
                  .aliases = {{"page-size"}}});

  rows.push_back({.name = "backend", .field = SLIP_FIELD(engine.backend), .group = machine, .metavar = "NAME",
                  .help = "auto (the GPU where there is one), cuda, cpu or reference (slow and plain, to compare with).",
                  .choices = {"auto", "cuda", "cpu", "reference"},
                  .values = {{"gpu", "cuda"}},
                  .aliases = {{"device"}}});
  rows.push_back({.name = "threads", .field = SLIP_FIELD(engine.threads), .group = machine, .metavar = "N",
                  .help = "Compute threads of the CPU backend; 0: all cores that the process may use.", .min = 0,
                  .max = 1024, .values = {{"-1", "0"}, {"auto", "0"}}, .aliases = {{"t"}}});
  rows.push_back({.name = "cpu-isa", .field = SLIP_FIELD(engine.cpu_isa), .group = machine, .metavar = "ISA",
                  .help = "Hold the CPU kernels to one instruction set: scalar, avx2 or avx512vnni.",
                  .choices = {"", "scalar", "avx2", "avx512vnni"}, .values = {{"auto", ""}}});
  rows.push_back({.name = "cuda-feature-level", .field = SLIP_FIELD(engine.cuda_feature_level), .group = machine,
                  .metavar = "LEVEL",
                  .help = "With --backend cuda: hold a newer GPU to the kernels of sm80, sm86, sm89 or sm120 (for tests).",
                  .choices = {"", "sm80", "sm86", "sm89", "sm120"}, .values = {{"auto", ""}}});
  rows.push_back({.name = "tensor-parallel-size", .field = SLIP_FIELD(engine.tensor_parallel_size), .group = machine,
                  .metavar = "N", .help = "Ranks that share each layer; so far 1, more is refused at start-up.", .min = 1, .max = 64,
                  .aliases = {{"tp"}, {"tp-size"}}});
  rows.push_back({.name = "watchdog-timeout", .field = SLIP_FIELD(engine.watchdog_s), .group = machine,
                  .metavar = "SECONDS", .help = "A step that takes longer ends the process with exit code 71.",
                  .min = 1, .max = 86400});
  rows.push_back({.name = "enforce-eager", .field = SLIP_FIELD(engine.enforce_eager), .group = machine,
                  .help = "Launch ops one by one instead of from captured graphs; the CPU backend always does.",
                  .aliases = {{"disable-cuda-graph"}}});
  rows.push_back({.name = "deterministic", .field = SLIP_FIELD(engine.deterministic), .group = machine,
                  .help = "On a GPU, kernels whose bits do not depend on what else is in the step (slower); on the CPU it is always so.",
                  .aliases = {{"enable-deterministic-inference"}}});
  return rows;
}

namespace {

/// SGLang counts the anchor among a block's draft tokens; here it is none.
ValueMap rows_of_a_block() {
  return {{"2", "1"}, {"3", "2"}, {"4", "3"}, {"5", "4"}, {"6", "5"}, {"7", "6"}, {"8", "7"}, {"9", "8"}, {"10", "9"}, {"11", "10"}, {"12", "11"}, {"13", "12"}, {"14", "13"}, {"15", "14"}, {"16", "15"}};
}

}  // namespace

std::vector<Flag> speculative_flags() {
  std::vector<Flag> rows;
  const std::string_view group = "Speculation";
  rows.push_back({.name = "speculative-config", .treatment = Treatment::kObject, .group = group, .metavar = "JSON",
                  .help = "A map of the keys below; --speculative-config.KEY sets one of them."});
  rows.push_back({.name = "speculative-config.method", .field = SLIP_FIELD(engine.speculative.method),
                  .group = group, .metavar = "NAME", .help = "Where drafts come from: ngram (the text itself), or dflash (a drafter model).",
                  .choices = {"", "ngram", "dflash"},
                  .values = {{"none", ""}, {"DFLASH", "dflash"}, {"draft-dflash", "dflash"}, {"NGRAM", "ngram"}, {"[ngram]", "ngram"}, {"ngram-simple", "ngram"}},
                  .refused_values = {{"mtp", kNoDrafter}, {"eagle", kNoDrafter}, {"EAGLE", kNoDrafter},
                                     {"eagle3", kNoDrafter}, {"EAGLE3", kNoDrafter}, {"medusa", kNoDrafter},
                                     {"draft_model", kNoDrafter}, {"STANDALONE", kNoDrafter},
                                     {"draft-simple", kNoDrafter}, {"draft-mtp", kNoDrafter},
                                     {"NEXTN", kNoDrafter}},
                  .aliases = {{"speculative-algorithm"}, {"spec-type"}}});
  rows.push_back({.name = "speculative-config.model", .field = SLIP_FIELD(engine.speculative.model), .group = group,
                  .metavar = "MODEL", .help = "The drafter of method dflash: a folder, a .gguf file or a hub id in the local cache.",
                  .aliases = {{"speculative-draft-model-path"}, {"speculative-draft-model"}, {"model-draft"},
                              {"md"}}});
  rows.push_back({.name = "speculative-config.profile", .field = SLIP_FIELD(engine.speculative.profile), .group = group,
                  .metavar = "FILE",
                  .help = "What slipstream calibrate-drafter wrote for the drafter of method dflash; it stands in for the drafter's config."});
  rows.push_back({.name = "speculative-config.num-speculative-tokens",
                  .field = SLIP_FIELD(engine.speculative.num_speculative_tokens), .group = group, .metavar = "N",
                  .help = "Most tokens drafted at once; 0: the method's own.", .min = 0, .max = 15,
                  .aliases = {{"speculative-num-draft-tokens", false, {}, rows_of_a_block()}, {"spec-draft-n-max"}, {"draft-max"},
                              {"draft-n-max"}, {"draft"}, {"draft-n"}}});
  rows.push_back({.name = "speculative-config.policy", .field = SLIP_FIELD(engine.speculative.policy),
                  .group = group, .metavar = "NAME",
                  .help = "adaptive (as many drafts as measured step times and acceptance make worth it, none included), fixed (as many "
                          "as the batch allows), or off.",
                  .choices = {"adaptive", "fixed", "off"}});
  rows.push_back({.name = "speculative-config.synthetic-acceptance",
                  .field = SLIP_FIELD(engine.speculative.synthetic_acceptance), .group = group, .metavar = "LENGTH|RATES",
                  .help = "Benchmarks: accept drafts by chance, at a mean acceptance length (3.5) or by rates of the drafts (0.9,0.8,0.5). "
                          "Answers mean nothing then, so it needs --load-format dummy or allow-synthetic.",
                  .aliases = {{"spec-decode-acceptance-length"}}});
  rows.push_back({.name = "speculative-config.allow-synthetic", .field = SLIP_FIELD(engine.speculative.allow_synthetic),
                  .group = group, .help = "Take synthetic-acceptance with real weights too, whose answers become nonsense."});
  rows.push_back({.name = "speculative-config.prompt-lookup-min",
                  .field = SLIP_FIELD(engine.speculative.prompt_lookup_min), .group = group, .metavar = "N",
                  .help = "Shortest run of tokens that ngram looks for.", .min = 1, .max = 64,
                  .aliases = {{"spec-ngram-size-min"}}});
  rows.push_back({.name = "speculative-config.prompt-lookup-max",
                  .field = SLIP_FIELD(engine.speculative.prompt_lookup_max), .group = group, .metavar = "N",
                  .help = "Longest run of tokens that ngram looks for.", .min = 1, .max = 64,
                  .aliases = {{"spec-ngram-size-n"}}});
  return rows;
}

}  // namespace slipstream::config
