// The drafter model of one load: what the engine must know of it before the target is loaded, then its weights behind the
// Drafter interface. Knows checkpoints and configs; no engine and no HTTP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/dflash_drafter.h"
#include "engine/spec/drafter.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

namespace slipstream {

/// A drafter's checkpoint, opened and checked against the target's config.
struct OpenedDrafter {
  std::string path;
  std::shared_ptr<Checkpoint> checkpoint;  // outlives the engine
  DrafterConfig config;
  bool profiled = false;                   // the config is a profile's
  int32_t draft_tokens = 0;                // at most so many of a block are verified
};

/// Opens speculative-config.model and pairs it with the target; its config is the checkpoint's own, or what
/// speculative-config.profile found out. Errors name the file and key, or both numbers; a profile that says that nothing fits is
/// refused, its table in the log.
Result<OpenedDrafter> open_drafter(const SpeculativeConfig& wanted, const ModelConfig& target, const std::string& backend);

struct LoadedDrafter {
  std::unique_ptr<Drafter> drafter;
  std::vector<CacheGroupSpec> groups;  // behind the target's in the cache
  int32_t layers = 0;                  // of those groups together
  int32_t warm_rows = 0;               // Ops::warm_up covers so many rows at least
  DflashDrafter* stack = nullptr;      // of `drafter`
  std::string report;                  // JSON text, for /v1/info
};

/// Loads its weights on `ops` beside `target`, whose LoadOptions and checkpoint these are; for so many sequences.
Result<LoadedDrafter> load_drafter(const OpenedDrafter& opened, const Model& target, const Checkpoint& target_checkpoint,
                                   Ops& ops, const LoadOptions& options, int32_t max_num_seqs);

/// What a drafter is about to serve with.
struct DrafterCheck {
  Model& target;
  Ops& ops;
  const KvCache& kv;  // nobody else uses it yet
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template = nullptr;
  std::vector<int32_t> stop_ids;
  int32_t context = 0, max_rows = 0, max_num_seqs = 0;
};

/// Lets the target write a few dozen tokens, for a second at most, and counts the drafts that are right. Logs the first slot's
/// share, with a warning and the next step where it is low, and adds all shares to `report`. Whether drafts are worth it stays
/// the policy's decision.
void self_check(LoadedDrafter& drafter, const DrafterCheck& check);

}  // namespace slipstream
