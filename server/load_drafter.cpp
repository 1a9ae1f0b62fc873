// See load_drafter.h.
#include "server/load_drafter.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/base/log.h"
#include "engine/base/text_file.h"
#include "engine/model/drafter_profile.h"
#include "engine/spec/dflash_proposer.h"

namespace slipstream {
namespace {

/// The values that a calibration tried, one line each.
void log_table(const DrafterProfile& profile) {
  using Json = nlohmann::json;
  // A report that a hand has changed is shown as far as it can be read.
  const auto text = [](const Json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string();
  };
  const auto number = [](const Json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0.0;
  };
  const Json report = Json::parse(profile.report, nullptr, false);
  if (!report.is_object() || !report.contains("settings")) return;
  for (const Json& setting : report["settings"]) {
    if (!setting.is_object() || !setting.contains("values")) continue;
    for (const Json& value : setting["values"])
      log::warn("drafter_profile", {{"setting", text(setting, "key")},
                                    {"value", text(value, "value")},
                                    {"acceptance_length", number(value, "length")},
                                    {"first_slot", number(value, "first_slot")}});
  }
}

Result<DrafterConfig> profiled_config(const std::string& file, const Checkpoint& checkpoint, const ModelConfig& target) {
  SLIP_TRY(const std::string text, read_text_file(file, "speculative-config.profile", DrafterProfile::kMaxBytes));
  SLIP_TRY(const DrafterProfile profile, parse_profile(file, text));
  if (!profile.fits) log_table(profile);
  SLIP_TRY(const DrafterFacts facts, infer_drafter_config(checkpoint, target, -1));
  return apply_profile(profile, facts, checkpoint, target);
}

/// The checkpoint's own config; where it has none, or a part is missing, the error says what finds it.
Result<DrafterConfig> own_config(const Checkpoint& checkpoint) {
  auto config = read_drafter_config(checkpoint);
  if (config.ok() || config.error().code == ErrorCode::kUnsupported) return config;
  Error error = config.error();
  error.message += "; slipstream calibrate-drafter TARGET DRAFTER --out FILE finds what is not stated, and speculative-config.profile takes "
                   "that file";
  return error;
}

}  // namespace

Result<OpenedDrafter> open_drafter(const SpeculativeConfig& wanted, const ModelConfig& target, const std::string& backend) {
  if (backend == "cuda")
    return unsupported("speculative-config.method dflash runs on the cpu and reference backends so far, not on cuda; use method "
                       "ngram, or leave speculative-config out",
                       "speculative-config.method");
  OpenedDrafter out;
  SLIP_TRY(out.path, resolve_model_path(wanted.model));
  SLIP_TRY(auto checkpoint, Checkpoint::open(out.path));
  out.checkpoint = std::move(checkpoint);
  out.profiled = !wanted.profile.empty();
  if (wanted.profile.empty()) {
    SLIP_TRY(out.config, own_config(*out.checkpoint));
  } else {
    SLIP_TRY(out.config, profiled_config(wanted.profile, *out.checkpoint, target));
  }
  SLIP_RETURN_IF_ERROR(check_pairing(out.config, target));
  const int32_t most = out.config.drafts(out.config.block_rows);
  if (wanted.num_speculative_tokens > most)
    return invalid_argument("speculative-config.num-speculative-tokens " + std::to_string(wanted.num_speculative_tokens) +
                                " is more than the " + std::to_string(most) + " drafts of the drafter's block of " +
                                std::to_string(out.config.block_rows) + " rows; lower it or leave it out",
                            "speculative-config.num-speculative-tokens");
  constexpr int32_t kMostDrafts = 15;  // of a verify span of 16 rows
  out.draft_tokens = std::min(kMostDrafts, wanted.num_speculative_tokens > 0 ? wanted.num_speculative_tokens : most);
  return out;
}

Result<LoadedDrafter> load_drafter(const OpenedDrafter& opened, const Model& target, const Checkpoint& target_checkpoint,
                                   Ops& ops, const LoadOptions& options, int32_t max_num_seqs) {
  DrafterOptions wanted;
  wanted.load = options;
  wanted.load.dummy = false;
  wanted.load.max_rows = DflashProposer::inject_rows(options.max_rows, max_num_seqs);
  wanted.max_blocks = max_num_seqs;
  wanted.first_cache_layer = target.config().layers;
  wanted.target_checkpoint = options.dummy ? nullptr : &target_checkpoint;
  SLIP_TRY(auto stack, load_dflash_drafter(*opened.checkpoint, opened.config, target, ops, wanted));
  LoadedDrafter out;
  out.groups = stack->cache_groups();
  for (const CacheGroupSpec& group : out.groups) out.layers += group.layers;
  out.warm_rows = std::max(wanted.load.max_rows, max_num_seqs * opened.config.block_rows);
  const int64_t bytes = stack->resident_bytes();
  out.stack = stack.get();
  out.drafter = std::make_unique<DflashProposer>(std::move(stack), ops, options.max_rows, max_num_seqs);
  out.report = nlohmann::ordered_json{{"method", "dflash"},
                                      {"path", opened.path},
                                      {"layers", opened.config.stack.layers},
                                      {"block_rows", opened.config.block_rows},
                                      {"draft_tokens", opened.draft_tokens},
                                      {"taps", opened.config.taps},
                                      {"mask_token", opened.config.mask_token},
                                      {"slots", opened.config.anchor_first ? "anchor first" : "own position"},
                                      {"config", opened.profiled ? "profile" : "checkpoint"},
                                      {"resident_bytes", bytes}}
                   .dump();
  log::info("drafter", {{"method", "dflash"},
                        {"path", opened.path},
                        {"layers", opened.config.stack.layers},
                        {"block_rows", opened.config.block_rows},
                        {"draft_tokens", opened.draft_tokens},
                        {"resident_mib", bytes >> 20}});
  return out;
}

}  // namespace slipstream
