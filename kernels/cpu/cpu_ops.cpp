// Memory, weights and row-wise ops of the CPU backend. Products are in cpu_linear.cpp, attention in cpu_attention.cpp.
#include "kernels/cpu/cpu_ops.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_scratch.h"
#include "kernels/cpu/pack.h"
#include "kernels/processor_name.h"
#include "kernels/sample_kernels.h"

namespace slipstream {

CpuOps::CpuOps(const CpuOptions& options) : kernels_(kernel_tables(options.isa)), pool_(options.threads) {
  const size_t each = (sizeof(WorkerScratch) + 4095) / 4096 * 4096;
  owned_.push_back(allocate(each * static_cast<size_t>(pool_.threads())));
  for (int32_t i = 0; i < pool_.threads(); ++i)
    scratch_.push_back(new (owned_.back().as<std::byte>() + each * static_cast<size_t>(i)) WorkerScratch);
  owned_.push_back(allocate(kSplitFloats * sizeof(float)));
  split_ = owned_.back().as<float>();
}

std::vector<KernelChoice> CpuOps::kernel_report() const {
  const std::string threads = " on " + std::to_string(pool_.threads()) + " threads";
  return {
      {"linear, block-quantised", std::string(kernels_.quant->name) + " 8-row tiles, int8 activations" + threads, kernels_.why},
      {"linear, float", std::string(kernels_.floats->name) + " 8-row tiles" + threads, kernels_.why},
      {"attention", std::string(kernels_.attention->name) + " 32-token tiles" + threads, kernels_.why},
      {"norm, rope, swiglu", kernels_.element->name, kernels_.why},
  };
}

std::vector<MachineFact> CpuOps::machine_report() const {
  return {{"processor", processor_name()}, {"instructions", kernels_.isa}, {"threads", std::to_string(pool_.threads())}};
}

Buffer CpuOps::allocate(size_t bytes) {
  if (warm_.load(std::memory_order_relaxed)) late_allocations_.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) return {};
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw DeviceError("cannot map " + std::to_string(bytes) + " bytes of memory; free some or lower the cache size");
  return Buffer(data, bytes, [](void* p, size_t n) { ::munmap(p, n); });
}

void CpuOps::upload(void* device, const void* host, size_t bytes) { std::memcpy(device, host, bytes); }
void CpuOps::download(void* host, const void* device, size_t bytes) { std::memcpy(host, device, bytes); }

std::string CpuOps::unsupported_reason(const WeightSpec& spec) const {
  if (std::string reason = f8_unsupported_reason(spec); !reason.empty()) return reason;
  for (const WeightPart& part : spec.parts) {
    const DTypeInfo& info = dtype_info(part.dtype);
    const std::string what = "tensor '" + part.name + "' (" + std::string(info.name) + ")";
    if (part.dtype == DType::kI32) return what + ": integers cannot be multiplied";
    if (part.cols != spec.parts.front().cols)
      return what + ": " + std::to_string(part.cols) + " columns beside parts of " +
             std::to_string(spec.parts.front().cols);
    if (part.cols % info.block_elements != 0)
      return what + ": " + std::to_string(part.cols) + " columns are not whole blocks of " +
             std::to_string(info.block_elements);
    if (spec.role != WeightRole::kRowLinear) continue;
    if (spec.local_shards < 1 || part.cols % (spec.local_shards * int64_t{info.block_elements}) != 0)
      return what + ": " + std::to_string(part.cols) + " columns cannot be cut in " +
             std::to_string(spec.local_shards) + " shards of whole blocks of " + std::to_string(info.block_elements);
  }
  return {};
}

std::unique_ptr<Weight> CpuOps::prepare_weight(WeightSpec spec) {
  const std::string reason = unsupported_reason(spec);
  CHECK(reason.empty(), reason);
  auto weight = std::make_unique<PackedWeight>(std::move(spec), kernels_.isa);
  weight->storage = allocate(static_cast<size_t>(weight->storage_bytes()));
  auto* target = weight->storage.as<uint8_t>();
  for (size_t i = 0; i < weight->parts.size(); ++i) {
    PackedPart& part = weight->parts[i];
    const WeightPart& source = weight->spec().parts[i];
    part.data = target;
    constexpr int64_t kTilesAtOnce = 8;
    pool_.parallel_for((part.tiles + kTilesAtOnce - 1) / kTilesAtOnce, [&](int64_t chunk) {
      for (int64_t t = chunk * kTilesAtOnce; t < std::min(part.tiles, (chunk + 1) * kTilesAtOnce); ++t) {
        const std::byte* rows[kTileRows];
        for (int r = 0; r < kTileRows; ++r) {
          const int64_t row = t * kTileRows + r;
          rows[r] = row < part.rows ? source.data + row * source.row_stride_bytes : nullptr;
        }
        uint8_t* tile = target + t * part.tile_bytes;
        if (is_block_quantised(part.dtype))
          pack_tile(part.dtype, rows, source.cols, tile);
        else
          pack_float_tile(part.dtype, rows, source.cols, tile);
        if (part.dtype == DType::kF8E4M3) pack_f8_scales(source, t * kTileRows, tile + part.scales_offset);
      }
    });
    target += part.tiles * part.tile_bytes;
  }
  if (weight->forms & kActInt8Block32) max_cols_ = std::max(max_cols_, weight->cols());
  if (weight->spec().role == WeightRole::kRowLinear)
    max_partials_ = std::max(max_partials_, weight->spec().virtual_shards * weight->rows());
  return weight;
}

uint8_t CpuOps::activation_forms(const Weight& weight) const { return static_cast<const PackedWeight&>(weight).forms; }

Activation CpuOps::make_activation(int32_t max_rows, int64_t cols, uint8_t forms) {
  CHECK(!(forms & kActInt8Block32) || cols % kBlock == 0, "int8 activations need a multiple of 32 columns");
  Activation x;
  x.max_rows = max_rows;
  x.cols = cols;
  x.forms = forms;
  const auto take = [&](size_t bytes) {
    owned_.push_back(allocate(bytes));
    return owned_.back().data();
  };
  const size_t elements = static_cast<size_t>(max_rows) * static_cast<size_t>(cols);
  if (forms & kActF32) x.f32 = static_cast<float*>(take(elements * sizeof(float)));
  if (forms & kActInt8Block32) {
    x.q = static_cast<int8_t*>(take(elements + 64));  // the widest load may read past the last row
    x.scale = static_cast<float*>(take(elements / kBlock * sizeof(float)));
    x.sum = static_cast<int32_t*>(take(elements / kBlock * sizeof(int32_t)));
  }
  return x;
}

void CpuOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  const auto& w = static_cast<const PackedWeight&>(table);
  for_rows(step.rows, w.cols() * 4, [&](int64_t r, int32_t) {
    const int64_t id = step.token_ids[r];
    CHECK(id >= 0 && id < w.rows(), "token id outside of the vocabulary");
    const PackedPart& part = w.part_of_row(id);
    const int64_t row = id - part.first_row;
    float* y = out + r * w.cols();
    unpack_row(part.dtype, part.tile(row / kTileRows), static_cast<int>(row % kTileRows), w.cols(), y);
    for (int64_t k = 0; k < w.cols(); ++k) y[k] *= scale;
  });
}

void CpuOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  for_rows(rows, out->cols, [&](int64_t r, int32_t) {
    kernels_.element->rms_norm(x + r * out->cols, out->cols, weight, eps, activation_row(*out, r));
  });
}

void CpuOps::store_rows(const float* x, int32_t rows, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  for_rows(rows, out->cols,
           [&](int64_t r, int32_t) { kernels_.element->store(x + r * out->cols, out->cols, activation_row(*out, r)); });
}

void CpuOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  const int64_t cols = out->cols;
  for_rows(rows, cols * 3, [&](int64_t r, int32_t) {
    const float* gate = gate_up + r * 2 * cols;
    kernels_.element->swiglu(gate, gate + cols, cols, activation_row(*out, r));
  });
}

void CpuOps::gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  for (size_t i = 0; i < row_ids.size(); ++i)
    std::memmove(out + static_cast<int64_t>(i) * cols, x + row_ids[i] * cols, static_cast<size_t>(cols) * sizeof(float));
}

void CpuOps::sample(const SampleBatch& batch) { cpu_sample(batch, pool_); }

void CpuOps::copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) {
  const int64_t bytes = int64_t{kv.kv_heads} * kv.block_tokens * kv.head_dim * dtype_info(kv.dtype).block_bytes;
  for (void* base : {kv.k, kv.v}) {
    auto* data = static_cast<std::byte*>(base);
    std::memcpy(data + target * bytes, data + source * bytes, static_cast<size_t>(bytes));
  }
}

void CpuOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                             int64_t cols, const float* norm, float eps, Activation* out) {
  const int64_t per_shard = rows * cols;
  if (norm != nullptr) {
    CHECK(rows <= out->max_rows, "more rows than the activation holds");
    out->rows = rows;
  }
  for_rows(rows, cols * (shards + 1), [&](int64_t r, int32_t) {
    float* y = residual + r * cols;
    for (int64_t c = 0; c < cols; ++c) {
      float sum = partials[r * cols + c];
      for (int32_t s = 1; s < shards; ++s) sum += partials[s * per_shard + r * cols + c];
      if (bias != nullptr) sum += bias[c];
      y[c] += sum;
    }
    if (norm != nullptr) kernels_.element->rms_norm(y, cols, norm, eps, activation_row(*out, r));
  });
}

void CpuOps::reserve_scratch(int32_t rows, int64_t cols) {
  const int64_t blocks = rows * ((cols + kBlock - 1) / kBlock);
  if (blocks <= sums_capacity_) return;
  sums_capacity_ = blocks;
  owned_.push_back(allocate(static_cast<size_t>(blocks) * 5 * sizeof(float)));
  scaled_sum_ = owned_.back().as<float>();
  scaled_sum16_ = scaled_sum_ + blocks;
  sum16_ = reinterpret_cast<int32_t*>(scaled_sum16_ + 2 * blocks);
}

void CpuOps::warm_up(int32_t max_rows) {
  reserve_scratch(max_rows, max_cols_);
  if (max_partials_ > 0 && comm() != nullptr && comm()->size() > 1)
    partials_scratch(static_cast<size_t>(max_partials_ * max_rows));
  warm_.store(true, std::memory_order_relaxed);
}

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) { return std::make_unique<CpuOps>(options); }

}  // namespace slipstream
