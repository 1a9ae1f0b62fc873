#include "engine/run/fake_executor.h"

#include <algorithm>
#include <thread>

#include "kernels/sample_kernels.h"

namespace slipstream {
namespace {

uint64_t mix(uint64_t state, uint64_t word) {  // splitmix64's finaliser over a running state
  uint64_t z = state + 0x9e3779b97f4a7c15ull + word;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

TokenLaw hash_token_law(int32_t vocab) {
  return [vocab](std::span<const int32_t> history, uint64_t seed, int32_t choice) {
    uint64_t state = mix(seed, static_cast<uint64_t>(choice));
    for (int32_t token : history) state = mix(state, static_cast<uint64_t>(token));
    if (history.size() > 8 && state % 3 != 0) return history[history.size() - 5];  // repeats itself for a while
    return static_cast<int32_t>((state >> 8) % static_cast<uint64_t>(vocab));
  };
}

FakeExecutor::FakeExecutor(FakeDevice device)
    : device_(std::move(device)),
      slots_(device_.shape),
      shadow_(static_cast<size_t>(device_.shape.groups) * static_cast<size_t>(device_.blocks) *
              static_cast<size_t>(device_.shape.block_tokens)),
      drafts_(static_cast<size_t>(device_.shape.slots)) {}

void FakeExecutor::carry_out(const SlotCommand& command) {
  if (const auto* open = std::get_if<OpenSlot>(&command)) {
    slots_.open(*open);
  } else if (const auto* grant = std::get_if<GrantBlocks>(&command)) {
    for (int32_t block : grant->blocks)
      if (block < 0 || block >= device_.blocks)
        throw DeviceError("plan: block " + std::to_string(block) + " of " + std::to_string(device_.blocks));
    slots_.grant(*grant);
  } else if (const auto* copy = std::get_if<CopyBlock>(&command)) {
    const auto tokens = static_cast<int64_t>(device_.shape.block_tokens);
    const int64_t base = static_cast<int64_t>(copy->group) * device_.blocks;
    std::copy_n(shadow_.begin() + (base + copy->source) * tokens, tokens,
                shadow_.begin() + (base + copy->target) * tokens);
  } else if (const auto* release = std::get_if<ReleaseSlot>(&command)) {
    slots_.release(*release);
  }
}

void FakeExecutor::forward(const StepPlan& plan) {
  if (untaken_ > 0) ++overlapped_;
  for (const SlotCommand& command : plan.commands) carry_out(command);
  const StepInputs& inputs = slots_.place(plan, [this] { return fires("starve"); });
  for (size_t s = 0; s < plan.spans.size(); ++s)
    if (slots_.placed()[s].runs) run_span(plan.spans[s], slots_.placed()[s]);
  rows_run_ += inputs.rows;
  spend(device_.step_delay + inputs.rows * device_.row_delay);
  if (fires("slow_step")) spend(device_.slow_delay);
}

void FakeExecutor::run_span(const Span& span, const DeviceSlots::Placed& placed) {
  const auto history = slots_.history(span.slot);
  const auto tokens = static_cast<size_t>(device_.shape.block_tokens);
  const int32_t end = placed.drafts > 0 || span.kind != SpanKind::kPrefill ? static_cast<int32_t>(history.size())
                                                                           : span.start + placed.rows;
  const int32_t start = end - placed.rows;
  for (int32_t group = 0; group < device_.shape.groups; ++group) {
    const auto& table = slots_.table(span.slot, group);
    uint64_t prefix = 0;
    for (int32_t position = 0; position < end; ++position) {
      const auto index = static_cast<size_t>(position);
      prefix = mix(prefix, static_cast<uint64_t>(history[index]));
      uint64_t& cell = shadow_[(static_cast<size_t>(group) * static_cast<size_t>(device_.blocks) +
                                static_cast<size_t>(table[index / tokens])) * tokens + index % tokens];
      if (position >= start)
        cell = prefix;
      else if (cell != prefix)
        ++foreign_reads_;
    }
  }
}

StepResult FakeExecutor::commit(const StepPlan& plan, const StepMasks& masks) {
  if (fires("device_error")) throw DeviceError("the fake device failed");
  const auto rows = slots_.sample_rows(plan, masks);
  size_t words = 0;
  for (const auto& mask : masks.rows) words = std::max(words, mask.size());
  drawn_.assign(rows.size(), SampledToken{});
  size_t index = 0;
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const DeviceSlots::Placed& placed = slots_.placed()[s];
    if (!placed.runs) continue;
    const auto history = slots_.history(plan.spans[s].slot);
    for (int32_t i = 0; i < placed.logits; ++i, ++index) {
      const SampleRow& row = rows[index];
      SampledToken& drawn = drawn_[index];
      if (fires("nan_row")) {
        drawn.non_finite = true;
        continue;
      }
      const auto prefix = history.first(static_cast<size_t>(row.position));
      if (device_.logits)
        draw(prefix, row, &drawn);
      else
        draw_by_law(prefix, row, words, &drawn);
    }
  }
  StepResult result = slots_.settle(plan, drawn_);
  const auto requests = slots_.draft_requests();
  if (device_.drafter != nullptr && !requests.empty()) {
    drafts_.resize(requests.size());
    for (auto& draft : drafts_) draft.clear();
    device_.drafter->propose(requests, &drafts_);
    slots_.keep_drafts(drafts_);
  }
  slots_.report_drafts(plan, &result);
  spend(device_.step_delay);
  if (fires("digest")) result.digest ^= 1;
  return result;
}

void FakeExecutor::draw(std::span<const int32_t> history, const SampleRow& row, SampledToken* drawn) {
  logits_.resize(static_cast<size_t>(device_.vocab));
  device_.logits(history, logits_);
  cpu_sample_row(logits_.data(), device_.vocab, row, false, drawn);
}

void FakeExecutor::draw_by_law(std::span<const int32_t> history, const SampleRow& row, size_t words, SampledToken* drawn) const {
  drawn->token = device_.law(history, row.seed, row.choice);
  if (row.mask != nullptr) {
    const auto ids = static_cast<int32_t>(32 * words);
    const auto allowed = [&](int32_t id) { return (row.mask[id / 32] >> (id % 32)) & 1u; };
    int32_t tries = 0;
    while (tries < ids && !allowed(drawn->token)) drawn->token = (drawn->token + 1) % ids, ++tries;
    if (tries == ids) {
      drawn->token = -1;
      drawn->non_finite = true;
      return;
    }
  }
  drawn->logprob = -0.5f;
  if (row.top_logprobs > 0) {
    drawn->top_count = 1;
    drawn->top_ids[0] = drawn->token;
    drawn->top_logprobs[0] = -0.5f;
  }
}

void FakeExecutor::launch_commit(const StepPlan& plan, const StepMasks& masks) {
  StepExecutor::launch_commit(plan, masks);
  ++untaken_;
}

bool FakeExecutor::result_ready() {
  if (!StepExecutor::result_ready()) return false;
  return ++looks_ > device_.looks_until_ready;
}

StepResult FakeExecutor::take_result() {
  --untaken_;
  looks_ = 0;
  return StepExecutor::take_result();
}

void FakeExecutor::spend(std::chrono::microseconds time) {
  if (time.count() == 0) return;
  if (device_.simulated != nullptr)
    device_.simulated->advance(time);
  else
    std::this_thread::sleep_for(time);
}

}  // namespace slipstream
