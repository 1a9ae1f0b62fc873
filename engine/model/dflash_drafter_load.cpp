// Filling DrafterWeights: roles, shapes and the sharding rule of each tensor, side by side.
#include "engine/model/dflash_drafter.h"
#include "engine/model/drafter_family.h"
#include "engine/model/drafter_tensors.h"
#include "engine/model/weight_loader.h"

namespace slipstream {
namespace {

Status load_layer(WeightLoader& loader, int32_t layer, DrafterLayer& into) {
  const ModelConfig& c = loader.config();
  SLIP_RETURN_IF_ERROR(load_matrices(loader, layer, into.block));
  SLIP_TRY(into.block.q_norm, loader.norm(layer, Role::kQNorm, c.head_dim));
  SLIP_TRY(into.block.k_norm, loader.norm(layer, Role::kKNorm, c.head_dim));
  const Slice& heads = loader.share().kv_heads;
  const Slice rows{heads.first * c.head_dim, heads.count * c.head_dim};
  const int64_t all = int64_t{c.kv_heads} * c.head_dim;
  SLIP_TRY(into.context_kv, loader.linear(layer, {{Role::kK, all, rows, true}, {Role::kV, all, rows, true}}, c.hidden));
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<DflashDrafter>> load_dflash_drafter(Checkpoint& checkpoint, const DrafterConfig& config,
                                                           const Model& target, Ops& ops, const DrafterOptions& options) {
  CHECK(options.max_blocks >= 1, "DrafterOptions need the blocks of the largest draft");
  SLIP_RETURN_IF_ERROR(check_pairing(config, target.config()));
  SLIP_RETURN_IF_ERROR(refuse_foreign_tensors(checkpoint));
  SLIP_TRY(DrafterTensors tensors, DrafterTensors::view(checkpoint, config));
  SLIP_RETURN_IF_ERROR(check_borrowed_copies(tensors, options.target_checkpoint, options.load.notes));

  WeightLoader loader(tensors, config.stack, ops, options.load, kDrafterNames);
  if (options.load.dummy)
    SLIP_RETURN_IF_ERROR(loader.use_dummy_weights(
        drafter_tensors(config, options.load.dummy_format.value_or(config.stack.weights_dtype))));
  SLIP_RETURN_IF_ERROR(loader.check());
  DrafterWeights weights;
  const int64_t hidden = config.stack.hidden;
  SLIP_TRY(weights.fusion, loader.linear(0, {{Role::kFusion, hidden, {0, hidden}}},
                                         static_cast<int64_t>(config.taps.size()) * config.target_hidden));
  SLIP_TRY(weights.fusion_norm, loader.norm(0, Role::kFusionNorm, hidden));
  SLIP_TRY(weights.output_norm, loader.norm(0, Role::kOutputNorm, hidden));
  weights.layers.resize(static_cast<size_t>(config.stack.layers));
  for (int32_t l = 0; l < config.stack.layers; ++l)
    SLIP_RETURN_IF_ERROR(load_layer(loader, l, weights.layers[static_cast<size_t>(l)]));
  SLIP_RETURN_IF_ERROR(loader.finish());
  weights.source = loader.take_source();
  return std::make_unique<DflashDrafter>(config, std::move(weights), loader.share(), target.ends(), ops, options);
}

}  // namespace slipstream
