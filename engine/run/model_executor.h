// One rank: Model over Ops and the K/V cache, driven by plans. Owns the slots' device state (DeviceSlots) and the step's
// arrays. Worker thread only, except abort. Knows no scheduler and no request.
#pragma once

#include <memory>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/run/device_slots.h"
#include "engine/run/step_executor.h"
#include "engine/spec/drafter.h"
#include "kernels/ops.h"

namespace slipstream {

/// Everything that one rank owns; drafter may be null. The checkpoint's mapping must outlive it.
struct RankParts {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  KvCache kv;
  std::unique_ptr<Drafter> drafter;
};

class ModelExecutor final : public StepExecutor {
 public:
  ModelExecutor(RankParts parts, const DeviceShape& shape);

  void forward(const StepPlan& plan) override;
  StepResult commit(const StepPlan& plan, const StepMasks& masks) override;
  /// Any thread: wakes this rank when it waits in a collective.
  void abort() override;

 private:
  void carry_out(const SlotCommand& command);
  void observe(const StepPlan& plan, const StepResult& result);
  void propose();

  RankParts parts_;
  DeviceSlots slots_;
  const int32_t vocab_;
  double forward_ms_ = 0;                     // of the last forward
  std::vector<SampledToken> drawn_;           // [max_logit_rows]
  std::vector<std::vector<int32_t>> drafts_;  // [slots]
};

}  // namespace slipstream
