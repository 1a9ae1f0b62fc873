#include "engine/run/model_executor.h"

#include <chrono>

namespace slipstream {
namespace {

using Time = std::chrono::steady_clock::time_point;

double ms_between(Time from, Time to) { return std::chrono::duration<double, std::milli>(to - from).count(); }

}  // namespace

ModelExecutor::ModelExecutor(RankParts parts, const DeviceShape& shape)
    : parts_(std::move(parts)),
      slots_(shape),
      vocab_(parts_.model->config().vocab),
      drawn_(static_cast<size_t>(shape.max_logit_rows())),
      drafts_(static_cast<size_t>(shape.slots)) {
  CHECK(parts_.kv.groups() == shape.groups, "the slots' block tables and the cache have different groups");
  CHECK(parts_.kv.shape().block_tokens == shape.block_tokens, "the plan's and the cache's block size differ");
  if (parts_.drafter != nullptr) parts_.drafter->attach(parts_.kv);
}

void ModelExecutor::carry_out(const SlotCommand& command) {
  if (const auto* open = std::get_if<OpenSlot>(&command)) {
    slots_.open(*open);
  } else if (const auto* grant = std::get_if<GrantBlocks>(&command)) {
    parts_.kv.require_blocks(grant->group, grant->blocks);
    slots_.grant(*grant);
  } else if (const auto* copy = std::get_if<CopyBlock>(&command)) {
    parts_.kv.copy_block(*parts_.ops, copy->group, copy->source, copy->target);
  } else if (const auto* release = std::get_if<ReleaseSlot>(&command)) {
    slots_.release(*release);
  }
}

void ModelExecutor::forward(const StepPlan& plan) {
  const Time begin = std::chrono::steady_clock::now();
  for (const SlotCommand& command : plan.commands) carry_out(command);
  const StepInputs& inputs = slots_.place(plan);
  // Every rank sees the same slots, so all skip an empty step together.
  if (inputs.rows > 0)
    parts_.model->forward(inputs, parts_.kv, parts_.drafter != nullptr ? parts_.drafter->taps() : nullptr);
  forward_ms_ = ms_between(begin, std::chrono::steady_clock::now());
}

StepResult ModelExecutor::commit(const StepPlan& plan, const StepMasks& masks) {
  const Time begin = std::chrono::steady_clock::now();
  require_masks(plan, masks, vocab_);
  const std::span<const SampleRow> rows = slots_.sample_rows(plan, masks);
  if (!rows.empty()) {
    SampleBatch batch;
    batch.logits = parts_.model->head();
    batch.rows = static_cast<int32_t>(rows.size());
    batch.vocab = vocab_;
    batch.row = rows.data();
    batch.out = drawn_.data();
    parts_.ops->sample(batch);
  }
  StepResult result = slots_.settle(plan, std::span<const SampledToken>(drawn_).first(rows.size()));
  const Time settled = std::chrono::steady_clock::now();
  observe(plan, result);
  propose();
  slots_.report_drafts(plan, &result);
  result.forward_ms = forward_ms_;
  result.commit_ms = ms_between(begin, settled);
  if (parts_.drafter != nullptr) result.draft_ms = ms_between(settled, std::chrono::steady_clock::now());
  return result;
}

void ModelExecutor::observe(const StepPlan& plan, const StepResult& result) {
  if (parts_.drafter == nullptr || parts_.drafter->taps() == nullptr) return;
  const StandingRows& standing = slots_.standing(plan, result);
  if (standing.step.rows > 0) parts_.drafter->observe(standing);
}

void ModelExecutor::propose() {
  const auto requests = slots_.draft_requests();
  if (parts_.drafter == nullptr || requests.empty()) return;
  drafts_.resize(requests.size());
  for (auto& draft : drafts_) draft.clear();
  parts_.drafter->propose(requests, &drafts_);
  slots_.keep_drafts(drafts_);
}

void ModelExecutor::abort() {
  if (Communicator* comm = parts_.ops->comm(); comm != nullptr) comm->abort();
}

}  // namespace slipstream
