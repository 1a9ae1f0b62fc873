// The CPU backend: weights packed at load, int8 activations for quantised weights, one small thread pool.
// Owns its memory and scratch; knows no request or model. Law: kernels/README.md.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace slipstream {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(const CpuOptions& options);

  std::string name() const override { return "cpu"; }
  std::vector<KernelChoice> kernel_report() const override;
  std::vector<MachineFact> machine_report() const override;

  Buffer allocate(size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void download(void* host, const void* device, size_t bytes) override;
  std::string unsupported_reason(const WeightSpec& spec) const override;
  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override;
  uint8_t activation_forms(const Weight& weight) const override;
  Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) override;

  void embed(const Weight& table, const StepInputs& step, float scale, float* out) override;
  void rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) override;
  void store_rows(const float* x, int32_t rows, Activation* out) override;
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override;
  void row_linear_partials(const Weight& w, const Activation& x, float* partials) override;
  void qkv_norm_rope_cache(const QkvParams& params) override;
  void attention(const AttentionParams& params) override;
  void swiglu(const float* gate_up, int32_t rows, Activation* out) override;
  void gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) override;
  void sample(const SampleBatch& batch) override;
  void copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) override;
  void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                           const float* norm, float eps, Activation* out) override;
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                       int64_t cols, const float* norm, float eps, Activation* out) override;

  void warm_up(int32_t max_rows) override;
  int64_t allocations_after_warm_up() const override { return late_allocations_.load(std::memory_order_relaxed); }

  ThreadPool& pool() { return pool_; }

 private:
  /// What a product does with its finished sums.
  struct Epilogue {
    float* out = nullptr;          // [rows, weight rows]
    const float* bias = nullptr;   // or null
    bool add = false;              // out += instead of =
    float* partials = nullptr;     // [local_shards, rows, weight rows]; then `out` is unused
  };
  struct WorkerScratch;

  void multiply(const PackedWeight& w, const Activation& x, const Epilogue& epilogue);
  void multiply_pair(const PackedWeight& w, const PackedPart& part, int64_t pair, const Activation& x, int32_t row0,
                     int32_t rows, const Epilogue& epilogue, WorkerScratch& scratch);
  void prepare_sums(const PackedWeight& w, const Activation& x);
  void reserve_scratch(int32_t rows, int64_t cols);
  void attend_item(const AttentionParams& params, const SpanRows& span, int32_t row0, int32_t rows, int32_t kv_head,
                   WorkerScratch& scratch);
  void attend_split(const AttentionParams& params, const SpanRows& span, int32_t row, WorkerScratch& scratch);
  /// parallel_for over rows when there is enough work, otherwise a plain loop. cost: elements per row.
  template <typename Body>
  void for_rows(int64_t rows, int64_t cost, const Body& body);

  KernelTables kernels_;
  ThreadPool pool_;
  std::vector<Buffer> owned_;              // activations and scratch
  std::vector<WorkerScratch*> scratch_;    // one per thread, inside owned_
  // step-wide sums of the activation that is being multiplied, see QuantRows
  int64_t sums_capacity_ = 0;              // 32-blocks over all rows
  float* scaled_sum_ = nullptr;            // [rows, cols / 32]
  int32_t* sum16_ = nullptr;               // [rows, cols / 16]
  float* scaled_sum16_ = nullptr;          // [rows, cols / 16]
  float* split_ = nullptr;                 // tile results of split attention
  int64_t max_cols_ = 0;                   // of quantised weights
  int64_t max_partials_ = 0;               // virtual_shards * rows of row-parallel weights
  std::atomic<bool> warm_{false};
  std::atomic<int64_t> late_allocations_{0};
};

}  // namespace slipstream
