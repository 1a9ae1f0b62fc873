// See load_model.h. The order of a start: checkpoint, tokenizer, backend, memory plan, weights, measured products, cache,
// executor with its graphs.
#include "server/load_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>

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
#include "server/load_drafter.h"
#include "server/load_progress.h"
#include "server/plan_device.h"

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
                                   .deterministic = config.deterministic, .resident_steps = true}, &why));
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

/// For /v1/info: what was asked for and what runs, without the drafter's own report.
std::string speculation_report(const SpeculativeConfig& wanted, int32_t drafts, const DeviceShape& shape) {
  const bool off = drafts == 0;
  Json out = {{"method", wanted.method.empty() ? Json(nullptr) : Json(wanted.method)},
              {"policy", off ? "off" : wanted.policy},
              {"draft_tokens", drafts},
              {"why_off", !off                     ? Json(nullptr)
                          : wanted.method.empty() ? Json("no speculative-config was given")
                                                  : Json("speculative-config.policy is off")}};
  if (shape.synthetic)
    out["synthetic_acceptance"] = {{"length", shape.synthetic->length(drafts)}, {"rates", shape.synthetic->rates()}};
  return out.dump();
}

/// Bounds what the start spends on graphs; the rest are captured when their steps come.
constexpr double kCaptureSeconds = 5;

void log_memory_plan(const DevicePlan& plan, const Checkpoint& checkpoint) {
  std::map<std::string_view, uint64_t> formats;  // stored bytes
  for (const TensorEntry& tensor : checkpoint.tensors()) formats[dtype_info(tensor.dtype).name] += tensor.bytes;
  std::string stored;
  for (const auto& [name, bytes] : formats)
    stored += (stored.empty() ? "" : ", ") + std::string(name) + " " + bytes_text(static_cast<int64_t>(bytes));
  std::vector<log::Field> fields = {{"needed", bytes_text(plan.memory.needed())},
                                    {"allowed", bytes_text(plan.memory.allowed)},
                                    {"free", bytes_text(plan.device.free)},
                                    {"total", bytes_text(plan.device.total)}};
  for (const MemoryLine& line : plan.memory.lines) fields.emplace_back(line.kind, bytes_text(line.planned));
  if (!stored.empty()) fields.emplace_back("stored", stored);
  fields.emplace_back("context", plan.memory.context);
  fields.emplace_back("bytes_per_token", plan.needs.block_bytes / plan.block_tokens);
  fields.emplace_back("sequences", plan.memory.batch.max_num_seqs);
  fields.emplace_back("step_tokens", plan.memory.batch.max_num_batched_tokens);
  log::write(log::Level::kInfo, "memory_plan", fields);
}

void log_memory_facts(const std::vector<MemoryLine>& lines, const CaptureReport& captures, const Ops::MemoryFacts& memory) {
  std::vector<log::Field> fields;
  for (const MemoryLine& line : lines) fields.emplace_back(line.kind, bytes_text(line.actual));
  fields.emplace_back("free", bytes_text(memory.free));
  log::write(log::Level::kInfo, "memory", fields);
  if (captures.captured + captures.left > 0)
    log::info("graphs", {{"captured", captures.captured}, {"left_for_later", captures.left}, {"seconds", captures.seconds}});
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
  auto lap_start = std::chrono::steady_clock::now();
  const auto lap = [&lap_start] {  // seconds since the last one
    const double seconds = since(lap_start);
    lap_start = std::chrono::steady_clock::now();
    return seconds;
  };
  auto out = std::make_unique<Loaded>();
  Services& services = out->services;

  progress("opening the checkpoint");
  SLIP_TRY(const std::string path, resolve_model_path(wanted.model));
  const bool without_weights = wanted.load_format == "dummy" && std::filesystem::is_directory(path);
  SLIP_TRY(auto opened, without_weights ? open_dummy_model(path) : Checkpoint::open(path));
  const std::shared_ptr<Checkpoint> checkpoint = std::move(opened);
  out->keep.push_back(checkpoint);  // the mapping outlives the engine
  SLIP_TRY(ModelConfig model_config, read_model_config(*checkpoint));
  std::optional<DType> dummy_format;
  SLIP_RETURN_IF_ERROR(choose_dummy_format(wanted.dummy_format, &model_config, &dummy_format));
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
  const double open_s = lap();
  RankParts parts{std::move(ops), nullptr, {}, nullptr};
  const std::string method = wanted.speculative.policy == "off" ? "" : wanted.speculative.method;
  const bool ngram = method == "ngram";
  constexpr int32_t kNgramDrafts = 4;  // when the operator leaves the number to the method
  int32_t drafts = wanted.speculative.num_speculative_tokens;
  if (ngram && drafts == 0) drafts = kNgramDrafts;
  std::optional<OpenedDrafter> drafter_file;
  if (method == "dflash") {
    progress("opening the drafter");
    SLIP_TRY(drafter_file, open_drafter(wanted.speculative, model_config, parts.ops->name()));
    out->keep.push_back(drafter_file->checkpoint);
    drafts = drafter_file->draft_tokens;
  }
  const DType dtype = cache_dtype(wanted.kv_cache_dtype, model_config);
  CudaStepOptions steps{.eager = wanted.enforce_eager,
                        .ngram = ngram,
                        .ngram_min = wanted.speculative.prompt_lookup_min,
                        .ngram_max = wanted.speculative.prompt_lookup_max,
                        .capture_seconds = kCaptureSeconds,
                        .capture_progress = [&progress](int32_t done, int32_t all) {
                          progress("capturing graphs: " + std::to_string(done) + " of " + std::to_string(all));
                        }};
  DeviceLoad load{wanted, *checkpoint, model_config, *parts.ops, {}, steps, dtype,
                  method.empty() ? 0 : drafts};
  load.options.dummy = wanted.load_format == "dummy";
  load.options.dummy_seed = wanted.seed;
  load.options.dummy_format = dummy_format;

  const bool on_device = parts.ops->memory().total > 0;
  BatchSize batch = cpu_batch(wanted);
  DevicePlan device;
  if (on_device) {
    progress("planning memory");
    SLIP_TRY(device, plan_device(load));
    batch = device.memory.batch;
    log_memory_plan(device, *checkpoint);
  }
  const double plan_s = lap();
  DeviceShape shape = device_shape(wanted, batch, load.draft_tokens);
  if (!wanted.speculative.synthetic_acceptance.empty()) {
    if (on_device)
      return unsupported("speculative-config.synthetic-acceptance runs on the cpu and reference backends so far, not on cuda",
                         "speculative-config.synthetic-acceptance");
    SLIP_TRY(shape.synthetic, SyntheticAcceptance::parse(wanted.speculative.synthetic_acceptance, load.draft_tokens));
    log::warn("synthetic_acceptance", {{"length", shape.synthetic->length(load.draft_tokens)}, {"effect", "drafts stand by chance: answers mean nothing"}});
  }

  LoadOptions options = load.options;
  size_load(shape, on_device, &options);
  LoadProgress weights_progress("loading weights", progress_output("loading_weights"));
  uint64_t weight_bytes = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    weight_bytes = all;
    weights_progress.update(done, all);
    progress("loading weights: " + std::to_string(done >> 20) + " of " + std::to_string(all >> 20) + " MiB");
  };
  std::vector<std::string> notes;
  options.notes = &notes;
  progress("loading weights");
  SLIP_TRY(parts.model, load_model(*checkpoint, model_config, *parts.ops, options));
  for (const std::string& note : notes) log::info("weights", {{"note", note}});
  const int64_t loaded_bytes = parts.ops->allocated_bytes();
  weights_progress.finish(weight_bytes);
  const double weights_s = lap();
  log::info("weights", {{"mib", static_cast<int64_t>(weight_bytes >> 20)},
                        {"resident_mib", parts.model->resident_bytes() >> 20},
                        {"seconds", weights_s},
                        {"gb_per_s", static_cast<double>(weight_bytes) / std::max(weights_s, 1e-6) / 1e9}});

  ModelInfo& info = services.model;
  std::vector<CacheGroupSpec> groups = parts.model->cache_groups();
  if (groups.size() != 1)
    return unsupported("the model needs " + std::to_string(groups.size()) + " cache groups; one is served yet");
  LoadedDrafter model_drafter;
  if (drafter_file) {
    progress("loading the drafter");
    SLIP_TRY(model_drafter, load_drafter(*drafter_file, *parts.model, *checkpoint, *parts.ops, options, batch.max_num_seqs));
    groups.insert(groups.end(), model_drafter.groups.begin(), model_drafter.groups.end());
  }
  shape.groups = static_cast<int32_t>(groups.size());
  int64_t block_bytes = 0;
  for (const CacheGroupSpec& group : groups) block_bytes += KvCache::block_bytes(group, wanted.block_size, dtype);
  progress("measuring products");
  parts.ops->warm_up(std::max(options.max_rows, model_drafter.warm_rows));
  const double warm_s = lap();

  progress("allocating the cache");
  CachePlan cache;
  if (on_device) {
    SLIP_TRY(const MemoryPlan again, plan_again(wanted, device, model_config.context_length, parts.ops->memory().free));
    if (again.blocks < device.memory.blocks)
      log::warn("cache", {{"planned_blocks", device.memory.blocks}, {"blocks", again.blocks},
                          {"why", "other programs or the driver took device memory while the model was loaded"}});
    device.memory = again;
    cache = {again.context, again.blocks, again.planned("kv_cache"), again.reason};
  } else {
    SLIP_TRY(cache, plan_cache(wanted, batch.max_num_seqs, model_config.context_length,
                               block_bytes, available_memory_bytes()));
  }
  const int64_t warm_bytes = parts.ops->allocated_bytes();
  KvCacheShape kv_shape;
  kv_shape.groups = groups;
  kv_shape.blocks.assign(groups.size(), cache.blocks);  // a block id means the same in every group
  kv_shape.block_tokens = wanted.block_size;
  kv_shape.dtype = dtype;
  if (dtype == DType::kF8E4M3) {
    SLIP_TRY(kv_shape.scales, cache_scales(*checkpoint, model_config.layers));
    if (!kv_shape.scales.empty()) kv_shape.scales.resize(kv_shape.scales.size() + static_cast<size_t>(model_drafter.layers));
    log::info("cache_scales", {{"from", kv_shape.scales.empty() ? "1, none in the checkpoint" : "the checkpoint, per layer"}});
  }
  SLIP_TRY(parts.kv, KvCache::create(*parts.ops, kv_shape));
  log::info("cache", {{"plan", cache.reason},
                      {"dtype", std::string(dtype_info(dtype).name)},
                      {"sequences", batch.max_num_seqs},
                      {"step_tokens", batch.max_num_batched_tokens}});
  info.cache_dtype = dtype_info(dtype).name;
  if (drafter_file) {
    progress("checking the drafter");
    self_check(model_drafter, {.target = *parts.model, .ops = *parts.ops, .kv = parts.kv, .tokenizer = *services.tokenizer,
                               .chat_template = services.chat_template.get(),
                               .stop_ids = model_config.eos_ids.empty() ? services.tokenizer->eos_ids() : model_config.eos_ids,
                               .context = cache.context, .max_rows = options.max_rows, .max_num_seqs = batch.max_num_seqs});
    parts.drafter = std::move(model_drafter.drafter);
    info.drafter_report = model_drafter.report;
  }
  if (ngram)
    parts.drafter = std::make_unique<NgramDrafter>(wanted.speculative.prompt_lookup_min,
                                                   wanted.speculative.prompt_lookup_max);
  info.speculation_report = speculation_report(wanted.speculative, load.draft_tokens, shape);

  info.names = model_names(config, path, model_config);
  info.architecture = model_config.architecture;
  info.format = wanted.load_format == "dummy" ? "dummy" : checkpoint->kind() == CheckpointKind::kGguf ? "gguf" : "safetensors";
  info.context_length = cache.context;
  info.vocab = model_config.vocab;
  info.eos_ids = model_config.eos_ids.empty() ? services.tokenizer->eos_ids() : model_config.eos_ids;
  info.kernel_report = kernel_report_json(*parts.ops);
  info.machine_report = machine_report_json(*parts.ops);
  log_kernel_report(*parts.ops);
  // What two starts must share for their answers to be comparable; no times, no sizes that depend on free memory.
  info.build_facts = std::to_string(weight_bytes) + "|" + parts.ops->name() + "|" + info.kernel_report + "|" +
                     wanted.kv_cache_dtype;

  EngineLimits limits;
  limits.max_num_seqs = batch.max_num_seqs;
  limits.max_batched_tokens = batch.max_num_batched_tokens;
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
  limits.max_supplied_drafts = shape.max_supplied_drafts;
  limits.cache_groups = static_cast<int32_t>(groups.size());
  if (drafter_file) limits.draft_block_tokens = drafter_file->config.block_rows;
  limits.draft_mode = wanted.speculative.policy == "fixed" ? DraftMode::kFixed : DraftMode::kAdaptive;
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  Ops& backend = *parts.ops;
  const int64_t resident_bytes = parts.model->resident_bytes();
  const int64_t cache_bytes = parts.kv.bytes();
  CaptureReport captures;
  if (on_device) {
    progress("capturing graphs");
    steps.context_tokens = cache.context;
    const int64_t before = backend.allocated_bytes();
    ranks.push_back(make_cuda_executor(std::move(parts), shape, steps, &captures));
    info.memory = device.memory.lines;
    const int64_t ours[] = {resident_bytes, loaded_bytes - resident_bytes, warm_bytes - loaded_bytes,
                            backend.allocated_bytes() - before, captures.bytes, 0, cache_bytes};
    int64_t counted = 0;
    for (size_t i = 0; i < info.memory.size(); ++i) counted += info.memory[i].actual = ours[i];
    // what nobody counted: the driver's modules and rounding, and whatever other programs took
    for (MemoryLine& line : info.memory)
      if (line.kind == "reserve") line.actual = device.device.free - backend.memory().free - counted;
    log_memory_facts(info.memory, captures, backend.memory());
  } else {
    ranks.push_back(std::make_unique<ModelExecutor>(std::move(parts), shape));
    info.memory = {{"weights", static_cast<int64_t>(weight_bytes), resident_bytes}, {"kv_cache", cache.bytes, cache_bytes}};
  }
  info.load_report = Json{{"file_bytes", weight_bytes},
                          {"resident_weight_bytes", resident_bytes},
                          {"cache_bytes", cache_bytes},
                          {"cache_dtype", dtype_info(dtype).name},
                          {"open_seconds", open_s},
                          {"plan_seconds", plan_s},
                          {"weights_seconds", weights_s},
                          {"warm_up_seconds", warm_s},
                          {"graphs", {{"captured", captures.captured}, {"left", captures.left}, {"seconds", captures.seconds}}},
                          {"notes", notes},
                          {"backend", backend.name()}}
                         .dump();
  ranks.back() = decorate(std::move(ranks.back()), backend);
  out->engine = std::make_unique<Engine>(limits, std::move(ranks), std::move(hooks));
  return out;
}

}  // namespace slipstream
