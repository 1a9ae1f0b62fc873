// See load_model.h.
#include "server/load_model.h"

#include <chrono>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "engine/base/log.h"
#include "engine/base/text_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/doctor/kernel_report.h"
#include "engine/model/cache_scales.h"
#include "engine/model/dummy_model.h"
#include "engine/model/model.h"
#include "engine/run/backend.h"
#include "engine/run/cuda_executor.h"
#include "engine/run/model_executor.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/weights/checkpoint.h"
#include "kernels/ops.h"
#include "server/cache_size.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::unique_ptr<Ops>> make_ops(const EngineConfig& config) {
  std::string why;
  SLIP_TRY(auto ops, make_backend({.backend = config.backend, .threads = config.threads, .cpu_isa = config.cpu_isa,
                                   .cuda_feature_level = config.cuda_feature_level,
                                   .deterministic = config.deterministic}, &why));
  if (!why.empty()) log::info("backend", {{"backend", ops->name()}, {"why_not_cuda", why}});
  return ops;
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  return id >= 0 ? std::string(tokenizer.token_bytes(id)) : std::string();
}

/// The operator's file, or the checkpoint's own; null when there is neither.
Result<std::shared_ptr<const ChatTemplate>> load_template(const EngineConfig& config, const Checkpoint& checkpoint,
                                                          const Tokenizer& tokenizer) {
  if (!config.chat_template.empty()) {
    constexpr int64_t kLimitBytes = 1 << 20;
    SLIP_TRY(const std::string source, read_text_file(config.chat_template, "chat-template", kLimitBytes));
    const auto eos = tokenizer.eos_ids();
    return ChatTemplate::compile(source, token_text(tokenizer, tokenizer.bos_id()),
                                 token_text(tokenizer, eos.empty() ? -1 : eos.front()));
  }
  auto own = ChatTemplate::load(checkpoint, tokenizer);
  if (own.ok()) return own;
  if (own.error().code == ErrorCode::kNotFound) return std::shared_ptr<const ChatTemplate>();
  // text completion works without it: say what is wrong and go on
  log::warn("chat_template", {{"reason", own.error().message}, {"effect", "chat is refused; use /v1/completions"}});
  return std::shared_ptr<const ChatTemplate>();
}

Result<GenerationDefaults> load_defaults(const EngineConfig& config, const Checkpoint& checkpoint) {
  if (config.generation_config == "vllm") {
    GenerationDefaults neutral;
    neutral.source = "built in";
    return neutral;
  }
  if (config.generation_config == "auto") return read_generation_defaults(checkpoint);
  // a folder that holds generation_config.json, with or without weights
  SLIP_TRY(const auto folder, make_dummy_checkpoint(config.generation_config, 0, {}));
  return read_generation_defaults(*folder);
}

std::vector<std::string> model_names(const Config& config, const std::string& path, const ModelConfig& model) {
  if (!config.server.served_model_names.empty()) return config.server.served_model_names;
  // the name as given, when it is a hub id; otherwise the file's or folder's
  if (config.engine.model != path) return {config.engine.model};
  const std::filesystem::path p(path);
  std::string name = p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
  if (name.empty()) name = p.parent_path().filename().string();
  if (name.empty()) name = model.name.empty() ? "model" : model.name;
  return {name};
}

}  // namespace

Result<std::unique_ptr<Loaded>> load_served_model(const Config& config, EngineHooks hooks,
                                                  const std::function<void(std::string)>& progress) {
  return load_decorated_model(config, std::move(hooks), progress,
                              [](std::unique_ptr<StepExecutor> executor, Ops&) { return executor; });
}

Result<std::unique_ptr<Loaded>> load_decorated_model(const Config& config, EngineHooks hooks,
                                                     const std::function<void(std::string)>& progress,
                                                     const ExecutorDecorator& decorate) {
  const EngineConfig& wanted = config.engine;
  if (wanted.tensor_parallel_size > 1)
    return unsupported("tensor-parallel-size " + std::to_string(wanted.tensor_parallel_size) +
                           " is not served yet; use 1",
                       "tensor-parallel-size");
  const auto start = std::chrono::steady_clock::now();
  auto out = std::make_unique<Loaded>();
  Services& services = out->services;

  progress("opening the checkpoint");
  SLIP_TRY(const std::string path, resolve_model_path(wanted.model));
  const bool without_weights = wanted.load_format == "dummy" && std::filesystem::is_directory(path);
  SLIP_TRY(auto opened, without_weights ? open_dummy_model(path, wanted.seed) : Checkpoint::open(path));
  const std::shared_ptr<Checkpoint> checkpoint = std::move(opened);
  out->keep.push_back(checkpoint);  // the mapping outlives the engine
  SLIP_TRY(const ModelConfig model_config, read_model_config(*checkpoint));
  SLIP_TRY(services.model.defaults, load_defaults(wanted, *checkpoint));
  progress("loading the tokenizer");
  SLIP_TRY(services.tokenizer, Tokenizer::load(*checkpoint));
  SLIP_TRY(services.chat_template, load_template(wanted, *checkpoint, *services.tokenizer));
  log::info("checkpoint", {{"model", model_config.name},
                           {"architecture", model_config.architecture},
                           {"layers", model_config.layers},
                           {"hidden", model_config.hidden},
                           {"vocab", model_config.vocab},
                           {"bytes", static_cast<int64_t>(checkpoint->total_bytes())},
                           {"tokenizer", services.tokenizer->description()}});

  SLIP_TRY(auto ops, make_ops(wanted));
  RankParts parts{std::move(ops), nullptr, {}, nullptr};
  const bool speculates = wanted.speculative.method == "ngram" && wanted.speculative.policy != "off";
  DeviceShape shape;
  shape.slots = wanted.max_num_seqs;
  shape.block_tokens = wanted.block_size;
  shape.max_rows = wanted.max_num_batched_tokens;
  constexpr int32_t kNgramDrafts = 4;  // when the operator leaves the number to the method
  const int32_t drafts = wanted.speculative.num_speculative_tokens;
  shape.max_draft_tokens = !speculates ? 0 : drafts > 0 ? drafts : kNgramDrafts;

  LoadOptions options;
  options.max_logit_rows = parts.ops->name() == "cuda" ? padded_rows(shape.max_logit_rows()) : shape.max_logit_rows();
  options.max_rows = std::max(shape.max_rows, options.max_logit_rows);
  options.dummy = wanted.load_format == "dummy" && !without_weights;  // a bare config already opened as dummy weights
  options.dummy_seed = wanted.seed;
  options.progress = [&progress](uint64_t done, uint64_t all) {
    progress("loading weights: " + std::to_string(done >> 20) + " of " + std::to_string(all >> 20) + " MiB");
  };
  std::vector<std::string> notes;
  options.notes = &notes;
  progress("loading weights");
  SLIP_TRY(parts.model, load_model(*checkpoint, model_config, *parts.ops, options));
  const double weights_s = since(start);
  for (const std::string& note : notes) log::info("weights", {{"note", note}});

  progress("allocating the cache");
  ModelInfo& info = services.model;
  const std::vector<CacheGroupSpec> groups = parts.model->cache_groups();
  if (groups.size() != 1)
    return unsupported("the model needs " + std::to_string(groups.size()) + " cache groups; one is served yet");
  const DType dtype = cache_dtype(wanted.kv_cache_dtype);
  const Ops::MemoryFacts memory = parts.ops->memory();
  const bool on_host = memory.total == 0;
  SLIP_TRY(const CachePlan cache,
           plan_cache(wanted, model_config.context_length, KvCache::block_bytes(groups[0], wanted.block_size, dtype),
                      on_host ? available_memory_bytes() : memory.total, on_host ? 0 : memory.total - memory.free));
  KvCacheShape kv_shape;
  kv_shape.groups = groups;
  kv_shape.blocks = {cache.blocks};
  kv_shape.block_tokens = wanted.block_size;
  kv_shape.dtype = dtype;
  if (dtype == DType::kF8E4M3) {
    SLIP_TRY(kv_shape.scales, cache_scales(*checkpoint, model_config.layers));
    log::info("cache_scales", {{"from", kv_shape.scales.empty() ? "1, none in the checkpoint" : "the checkpoint, per layer"}});
  }
  SLIP_TRY(parts.kv, KvCache::create(*parts.ops, kv_shape));
  log::info("cache", {{"plan", cache.reason}, {"dtype", std::string(dtype_info(dtype).name)}});
  info.cache_dtype = dtype_info(dtype).name;
  if (speculates)
    parts.drafter = std::make_unique<NgramDrafter>(wanted.speculative.prompt_lookup_min,
                                                   wanted.speculative.prompt_lookup_max);
  parts.ops->warm_up(options.max_rows);

  info.names = model_names(config, path, model_config);
  info.architecture = model_config.architecture;
  info.format = wanted.load_format == "dummy" ? "dummy" : checkpoint->kind() == CheckpointKind::kGguf ? "gguf" : "safetensors";
  info.context_length = cache.context;
  info.vocab = model_config.vocab;
  info.eos_ids = model_config.eos_ids.empty() ? services.tokenizer->eos_ids() : model_config.eos_ids;
  info.kernel_report = kernel_report_json(*parts.ops);
  info.machine_report = machine_report_json(*parts.ops);
  log_kernel_report(*parts.ops);
  info.load_report = Json{{"file_bytes", checkpoint->total_bytes()},
                          {"resident_weight_bytes", parts.model->resident_bytes()},
                          {"cache_bytes", cache.bytes},
                          {"cache_dtype", dtype_info(dtype).name},
                          {"weights_seconds", weights_s},
                          {"notes", notes},
                          {"backend", parts.ops->name()}}
                         .dump();

  // What two starts must share for their answers to be comparable; no times, no sizes that depend on free memory.
  info.build_facts = std::to_string(checkpoint->total_bytes()) + "|" + parts.ops->name() + "|" + info.kernel_report + "|" +
                     wanted.kv_cache_dtype;

  EngineLimits limits;
  limits.max_num_seqs = wanted.max_num_seqs;
  limits.max_batched_tokens = wanted.max_num_batched_tokens;
  limits.max_queued_requests = wanted.max_num_queued_reqs;
  limits.max_queued_tokens = wanted.max_num_queued_tokens;
  limits.context_length = cache.context;
  limits.vocab = model_config.vocab;
  limits.block_tokens = wanted.block_size;
  limits.num_blocks = cache.blocks;
  limits.prefix_caching = wanted.enable_prefix_caching;
  limits.step_budget = std::chrono::milliseconds(wanted.step_budget_ms);
  limits.watchdog = std::chrono::seconds(wanted.watchdog_s);
  limits.max_draft_tokens = shape.max_draft_tokens;
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  Ops& backend = *parts.ops;
  if (parts.ops->name() == "cuda")
    ranks.push_back(make_cuda_executor(std::move(parts), shape,
                                       {.context_tokens = cache.context,
                                        .eager = wanted.enforce_eager,
                                        .ngram = speculates,
                                        .ngram_min = wanted.speculative.prompt_lookup_min,
                                        .ngram_max = wanted.speculative.prompt_lookup_max}));
  else
    ranks.push_back(std::make_unique<ModelExecutor>(std::move(parts), shape));
  ranks.back() = decorate(std::move(ranks.back()), backend);
  out->engine = std::make_unique<Engine>(limits, std::move(ranks), std::move(hooks));
  return out;
}

}  // namespace slipstream
