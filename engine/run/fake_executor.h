// A device without a model, for tests of everything above it: tokens are a pure function of (history, seed, choice), so
// no batching can change them; delays and faults are chosen. It keeps a shadow of the K/V cache and notices any read of
// a position that holds something else than the sequence's own prefix. With looks_until_ready it is the
// asynchronous device whose results come while later launches are carried out.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/run/device_slots.h"
#include "engine/run/step_executor.h"
#include "engine/spec/drafter.h"

namespace slipstream {

/// The token after `history`. Under a mask: the next allowed one from there, in ascending order.
using TokenLaw = std::function<int32_t(std::span<const int32_t> history, uint64_t seed, int32_t choice)>;
/// A law over [0, vocab): a hash of everything, and now and then a repetition that an n-gram drafter can find.
TokenLaw hash_token_law(int32_t vocab);

struct FakeDevice {
  DeviceShape shape;
  int32_t blocks = 64;
  TokenLaw law;
  /// In place of the law: logits [vocab] behind a history, for the real sampler with each row's whole law.
  std::function<void(std::span<const int32_t> history, std::span<float> logits)> logits;
  int32_t vocab = 0;                        // of them
  std::shared_ptr<Drafter> drafter;         // may be null
  std::chrono::microseconds step_delay{0};  // of each launch; slept, or added to `simulated`
  std::chrono::microseconds row_delay{0};
  /// A device that runs on: a launched commit's result is there only after so many looks. 0: commits wait.
  int32_t looks_until_ready = 0;
  std::chrono::milliseconds slow_delay{0};  // of a step where the point "slow_step" fires
  SimulatedClock* simulated = nullptr;
  /// Points: "device_error" (each commit), "nan_row" (each drawn row), "starve" (each decode span), "slow_step" (each
  /// forward), "digest" (each commit: this rank reports another one). May be null.
  std::shared_ptr<FaultSchedule> faults;
};

class FakeExecutor final : public StepExecutor {
 public:
  explicit FakeExecutor(FakeDevice device);

  void forward(const StepPlan& plan) override;
  StepResult commit(const StepPlan& plan, const StepMasks& masks) override;
  void launch_commit(const StepPlan& plan, const StepMasks& masks) override;
  bool result_ready() override;
  StepResult take_result() override;

  /// Forwards that began while a result was still untaken: what an asynchronous device is for. Any thread.
  int64_t overlapped() const { return overlapped_; }
  /// Reads of a position that held something else. Must stay 0; any thread.
  int64_t foreign_reads() const { return foreign_reads_; }
  int64_t rows_run() const { return rows_run_; }

 private:
  void carry_out(const SlotCommand& command);
  void run_span(const Span& span, const DeviceSlots::Placed& placed);
  bool fires(const char* point) { return device_.faults != nullptr && device_.faults->passes(point); }
  void draw(std::span<const int32_t> history, const SampleRow& row, SampledToken* drawn);
  void draw_by_law(std::span<const int32_t> history, const SampleRow& row, size_t words, SampledToken* drawn) const;
  void spend(std::chrono::microseconds time);

  FakeDevice device_;
  DeviceSlots slots_;
  std::vector<uint64_t> shadow_;  // [groups][blocks][block_tokens]: hash of the prefix that ends there
  std::vector<SampledToken> drawn_;
  std::vector<float> logits_;
  std::vector<std::vector<int32_t>> drafts_;
  std::atomic<int64_t> foreign_reads_{0};
  std::atomic<int64_t> rows_run_{0};
  std::atomic<int64_t> overlapped_{0};
  int32_t untaken_ = 0;  // results launched and not taken
  int32_t looks_ = 0;    // at the oldest of them
};

}  // namespace slipstream
