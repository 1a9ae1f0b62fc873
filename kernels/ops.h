// The one list of operations of a backend. Composite ops have a default composition of primitives that a backend
// may override, so that fusion never changes a model file. Knows tensors, formats and the communicator; no
// request, JSON or model name.
//
// Thread: one Ops per rank, used by that rank's worker thread only. Pointers are device memory of the backend
// (host memory for `reference` and `cpu`). No op allocates after Ops::warm_up.
//
// Exactness (CPU kernel law, engine/README.md): an output element's reduction order depends only on K and absolute
// position, never on rows, tile, chunk, thread count or batch:
//   linear        y = fma chain over the 32-blocks (or elements, for F32/F16/BF16 weights) of K in ascending order;
//                 inside a 32-block of a quantised product the integer dot is exact. Row-parallel weights start a new
//                 chain per virtual shard; shard sums are added in order 0..S-1, then the residual.
//   attention     KV tiles of kAttentionTile tokens from position 0; each tile gives (max, sum, accumulator) from
//                 scratch; tiles merge left to right; K and V are read after rounding to the cache dtype. An ancestor mask
//                 cuts a tile into its runs of visible tokens, each a tile of its own. K and V of a
//                 kF8E4M3 cache are its codes; the scales are factors of the score's scale and of the result.
//   norms         sum of squares in kNormLanes interleaved chains, added pairwise at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/communicator.h"
#include "kernels/sample.h"
#include "kernels/tensor.h"
#include "kernels/weight.h"

namespace slipstream {

/// A device or communicator fault: ends the engine (exit 70). Thrown by backends, caught in the rank loop only.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr int kAttentionTile = 32;  // tokens; a multiple of it is every legal cache block size
inline constexpr int kNormLanes = 16;
inline constexpr int kMaskRows = 32;       // rows of a span with an ancestor mask

enum class RopeStyle : uint8_t {
  kHalfSplit,    // pairs (i, i + dim/2): Hugging Face layout ("neox")
  kInterleaved,  // pairs (2i, 2i + 1): GGUF `llama` layout, whose converter permutes q and k
};

/// cos/sin are computed from these per position by the backend's own polynomials (kernels/law.h).
struct RopeParams {
  RopeStyle style = RopeStyle::kHalfSplit;
  int32_t dim = 0;                    // rotated leading elements of each head; the rest pass through
  const float* inv_freq = nullptr;    // [dim / 2], after scaling (llama3, yarn, linear)
  float attention_factor = 1.0f;      // multiplies cos and sin (yarn)
};

/// One layer's K and V of one cache group. Block b, head h, offset t: base + ((b * kv_heads + h) * block_tokens + t) * head_dim.
struct KvLayer {
  void* k = nullptr;         // [blocks, kv_heads, block_tokens, head_dim] of dtype
  void* v = nullptr;         // same shape
  DType dtype = DType::kBF16;  // kF32, kF16, kBF16 or kF8E4M3
  int32_t kv_heads = 0;      // on this rank
  int32_t head_dim = 0;
  int32_t block_tokens = 0;
  int32_t group = 0;         // which block table column addresses it
  int32_t blocks = 0;        // in all; 0 when the owner does not say. Devices clamp ids below it as a second wall
  // kF8E4M3 alone: an element stands for code * scale and is written as the nearest code to x / scale, held at +-448.
  float k_scale = 1.0f;
  float v_scale = 1.0f;
};

/// Consecutive rows of one sequence in a step.
struct SpanRows {
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t context = 0;                       // tokens before the first row; row i has position context + i
  const int32_t* const* block_tables = nullptr;  // [cache groups] -> block ids of this sequence
  int32_t blocks = 0;                        // ids in each of them; read by backends that copy them to a device
};

/// What a forward runs on. Borrowed for the duration of one step.
struct StepInputs {
  int32_t rows = 0;
  const int32_t* token_ids = nullptr;  // [rows]
  const int32_t* positions = nullptr;  // [rows]
  std::span<const SpanRows> spans;     // cover [0, rows) in order
  std::span<const int32_t> logit_rows; // ascending rows whose logits are wanted
  int32_t groups = 1;                  // cache groups of the block tables
  const void* device = nullptr;        // the backend's own copy of the above, set by Ops::begin_step
  bool device_owned = false;           // lengths and tokens live on the device alone: of the above only counts and
                                       // logit_rows are read on the host
};

struct QkvParams {
  const StepInputs* step = nullptr;
  float* qkv = nullptr;               // [rows, (heads + 2 * kv_heads) * head_dim]: q | k | v; q is updated in place
  int32_t heads = 0;                  // on this rank
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  const float* q_norm = nullptr;      // [head_dim] RMSNorm weight per head, or null
  const float* k_norm = nullptr;
  float norm_eps = 0;
  RopeParams rope;
  KvLayer kv;                         // k and v rows are written at their positions, rounded to kv.dtype
};

struct AttentionParams {
  const StepInputs* step = nullptr;
  const float* q = nullptr;    // row r at q + r * q_stride: [heads, head_dim]
  int64_t q_stride = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0;             // usually 1/sqrt(head_dim)
  int32_t window = 0;          // 0: full; else keys with position > p - window are visible
  bool causal = true;          // false: every row of the span sees the whole span (DFlash blocks)
  // Tree drafts: null, or per row of the step which rows of its own span it sees, bit i for row i, in place of causal.
  // Spans have at most kMaskRows rows then; tokens before the span are visible as ever. Memory of the backend.
  const uint32_t* ancestor_mask = nullptr;  // [rows]
  KvLayer kv;
  Activation* out = nullptr;   // [rows, heads * head_dim]
};

/// CHECKs that no span has more rows than an ancestor mask has bits. For backends that see the spans on the host.
void check_ancestor_mask(const AttentionParams& params);

/// Device memory owned by an Ops.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t bytes, std::function<void(void*, size_t)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      release_ = std::move(other.release_);
    }
    return *this;
  }
  ~Buffer() { reset(); }
  void reset() {
    if (data_ != nullptr) release_(data_, bytes_);
    data_ = nullptr;
  }
  void* data() const { return data_; }
  template <typename T>
  T* as() const { return static_cast<T*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::function<void(void*, size_t)> release_;
};

/// One line of the kernel report (doctor, /v1/info, start-up log).
struct KernelChoice {
  std::string op;      // "linear Q4_1"
  std::string kernel;  // "avx2 8-row int8"
  std::string why;     // why not a faster one; empty if it is the fastest built
  std::string built_for = {};  // GPU architectures that it was built for ("80 86 90a"); empty on a host
};

/// One fact about what the kernels run on: {"gpu", "NVIDIA H200"}.
struct MachineFact {
  std::string name;
  std::string value;
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string name() const = 0;  // "reference", "cpu"
  virtual std::vector<KernelChoice> kernel_report() const = 0;
  /// The processor and its driver, in the order to print them.
  virtual std::vector<MachineFact> machine_report() const = 0;
  Communicator* comm() const { return comm_; }  // null at one rank
  virtual void set_comm(Communicator* comm) { comm_ = comm; }

  // ---- memory and weights (load time) ----
  /// Zero-filled; pages are touched lazily. Throws DeviceError when memory is refused.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void upload(void* device, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const void* device, size_t bytes) = 0;
  /// Empty string when the backend can serve the spec, otherwise the reason, naming the tensor and format.
  virtual std::string unsupported_reason(const WeightSpec& spec) const = 0;
  virtual std::unique_ptr<Weight> prepare_weight(WeightSpec spec) = 0;
  /// Whether prepare_weight takes WeightPart::dummy, so that random weights need no bytes on the host.
  virtual bool makes_dummy_weights() const { return false; }
  /// The forms that `weight` wants its input in.
  virtual uint8_t activation_forms(const Weight& weight) const = 0;
  /// Storage comes from `allocate` and lives as long as the Ops.
  virtual Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) = 0;

  /// What steps will ask for; called by models before warm_up, so that scratch is there afterwards.
  virtual void plan_attention(int32_t max_rows, int32_t heads, int32_t kv_heads, int32_t head_dim) {
    (void)max_rows, (void)heads, (void)kv_heads, (void)head_dim;
  }
  /// The cache that steps will read: dtype, head_dim and block_tokens of `kv` are what the kernel report speaks of. Called
  /// when the cache is made; steps may still bring another.
  virtual void plan_cache(const KvLayer& kv) { (void)kv; }
  struct MemoryFacts {
    int64_t total = 0, free = 0;  // bytes; total 0: host memory, ask the system
  };
  virtual MemoryFacts memory() const { return {}; }
  /// Device bytes held through this Ops, weights and scratch included; 0 where memory is the host's.
  virtual int64_t allocated_bytes() const { return 0; }
  /// The most that it held at once, scratch of the start included.
  virtual int64_t peak_bytes() const { return 0; }
  /// The same backend with no memory behind it: load-time calls only count what this one would take (allocated_bytes), so
  /// that a plan stands before anything is loaded. Null where memory is the host's.
  virtual std::unique_ptr<Ops> dry_twin() const { return nullptr; }

  // ---- primitives ----
  /// Called by models before the first op that reads `step`. A backend with its own memory copies the arrays there and
  /// sets step->device, unless it is set; valid until the second begin_step after it.
  virtual void begin_step(StepInputs* step) { (void)step; }
  /// For a device-owned step: the same step over its logit rows alone: the last ones of their spans, of a prefill chunk one at most. `narrow` is ready for
  /// ops then, until the next call. False: it is not narrowed here.
  virtual bool narrow_step(const StepInputs& step, StepInputs* narrow) {
    (void)step, (void)narrow;
    return false;
  }
  /// out[r, :] = scale * table[step.token_ids[r], :].  out [step.rows, cols]
  virtual void embed(const Weight& table, const StepInputs& step, float scale, float* out) = 0;
  /// out = x / sqrt(mean(x^2) + eps) * weight, in every form of out.  x [rows, out->cols]
  virtual void rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) = 0;
  /// out = x, in every form of out.  x [rows, out->cols]
  virtual void store_rows(const float* x, int32_t rows, Activation* out) = 0;
  /// out = x W^T + bias.  out [x.rows, w.rows()], bias [w.rows()] or null
  virtual void linear(const Weight& w, const Activation& x, const float* bias, float* out) = 0;
  /// partials[s, r, :] = the chain of local shard s.  w is kRowLinear; partials [local_shards, x.rows, w.rows()]
  virtual void row_linear_partials(const Weight& w, const Activation& x, float* partials) = 0;
  /// q/k norm, rotary embedding of q and k, and the write of k and v to the cache.
  virtual void qkv_norm_rope_cache(const QkvParams& params) = 0;
  virtual void attention(const AttentionParams& params) = 0;
  /// out = silu(gate) * up.  gate_up [rows, 2 * out->cols]: gate | up
  virtual void swiglu(const float* gate_up, int32_t rows, Activation* out) = 0;
  /// out[i, :] = x[row_ids[i], :]
  virtual void gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) = 0;
  /// Draws one token per row (kernels/sample.h).
  virtual void sample(const SampleBatch& batch) = 0;
  virtual void copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) = 0;

  // ---- composites ----
  /// q|k|v = x W^T + bias, then qkv_norm_rope_cache. Of params.qkv, [x.rows, w.rows()], q is left.
  virtual void linear_qkv(const Weight& w, const Activation& x, const float* bias, const QkvParams& params);
  /// out = silu(gate) * up of gate|up = x W^T + bias.  w [2 * out->cols, x.cols], scratch [x.rows, w.rows()] floats
  virtual void linear_swiglu(const Weight& w, const Activation& x, const float* bias, float* scratch, Activation* out);
  /// residual += bias + the sum of all S shards of w x in order; then, if norm is given, out = rms_norm(residual).
  /// residual [x.rows, w.rows()]. The default composes row_linear_partials, all_gather and reduce_add_norm.
  virtual void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                   const float* norm, float eps, Activation* out);
  /// residual[r, :] += sum over s = 0..shards-1 of partials[s, r, :] (in that order, then the residual).
  virtual void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias,
                               float* residual, int64_t cols, const float* norm, float eps, Activation* out) = 0;

  /// Called once after all weights are prepared; sizes scratch for max_rows. No allocation afterwards.
  virtual void warm_up(int32_t max_rows) = 0;
  /// Allocations since warm_up; 0 in a healthy engine (CountingOps asserts it).
  virtual int64_t allocations_after_warm_up() const = 0;

 protected:
  /// Scratch of the default row_linear_add_norm: [virtual_shards, rows, w.rows()] floats. Grows through `allocate`;
  /// backends call it in warm_up with the largest count, so that it never grows later.
  float* partials_scratch(size_t floats);

 private:
  Communicator* comm_ = nullptr;
  Buffer partials_;
};

struct CpuOptions {
  int32_t threads = 0;       // 0: one per available core
  std::string isa;           // "" best; "scalar", "avx2", "avx512vnni" force one (tests)
};
/// threads share the output rows of a product; the values do not depend on it.
std::unique_ptr<Ops> make_reference_ops(int32_t threads = 1);
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

struct CudaOptions {
  int32_t device = 0;
  int32_t feature_arch = 0;  // 0: the GPU's own; 80, 86, 89 or 120 hide what that architecture lacks (tests)
  bool deterministic = false;  // row-exact kernels: a row's bits depend on its own content and position alone
  bool resident_steps = false;  // every step brings its own device arrays: nothing is kept for begin_step to upload
};
/// Null in a build without CUDA. Throws DeviceError where there is no usable GPU or no kernel for it.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options);
/// Whether `make_cuda_ops` would find a GPU; `why` then says why not in one line ("this build has no CUDA kernels").
bool cuda_available(std::string* why);

}  // namespace slipstream
