// Times CUDA attention: decode and verify against the measured read ceiling, prefill in causal operations per second. Caches
// rotate through more memory than L2 holds; times are medians of graph replays.
//   bench_attention [bf16 | fp8] [decode | verify | splits | prefill]...     all without arguments
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/attention_fixture.h"
#include "tests/cuda/bench_clock.h"

using namespace slipstream;
using namespace slipstream::cuda;
using slipstream::cuda::test::to_device;

namespace {

constexpr size_t kColdBytes = size_t{768} << 20;  // several times any L2

/// Pairs of BF16 that are nearly normal: sums of four uniform bytes.
__global__ void fill_normal(uint32_t* data, size_t words, uint32_t seed) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t packed = 0;
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t x = (static_cast<uint32_t>(i) * 2 + half) * 0x9e3779b9u + seed;
      x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
      const float sum = static_cast<float>((x & 255) + ((x >> 8) & 255) + ((x >> 16) & 255) + (x >> 24));
      const __nv_bfloat16 value = __float2bfloat16_rn((sum - 510.0f) / 148.0f);
      packed |= static_cast<uint32_t>(__bfloat16_as_ushort(value)) << (16 * half);
    }
    data[i] = packed;
  }
}
/// E4M3 codes of 2^-3 to 2, either sign.
__global__ void fill_codes(uint32_t* data, size_t words, uint32_t seed) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 0x9e3779b9u + seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    data[i] = (x & 0x80808080u) | ((x & 0x1f1f1f1fu) + 0x20202020u);
  }
}
__global__ void fill_queries(float* data, size_t count) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
    data[i] = static_cast<float>(static_cast<int32_t>(x >> 16) - 32768) / 16384.0f;
  }
}
__global__ void read_all(const uint4* data, size_t count, uint32_t* out) {
  uint32_t sum = 0;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint4 v = __ldg(data + i);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *out = sum;
}

struct Case {
  const char* name;
  int32_t spans, context, rows;  // context: tokens before the rows
  int32_t heads, kv_heads, head_dim;
};

/// A step of equal spans over `layers` caches with scattered blocks.
class Step {
 public:
  Step(Context& context, const Case& c, bool prefill, DType dtype) : context_(context), c_(c) {
    const auto element = static_cast<size_t>(dtype_info(dtype).block_bytes);
    constexpr int32_t kBlock = 32;
    const int32_t tokens = c.context + c.rows, blocks = (tokens + kBlock - 1) / kBlock;
    cache_bytes_ = size_t{2} * static_cast<size_t>(c.spans) * static_cast<size_t>(tokens) * static_cast<size_t>(c.kv_heads * c.head_dim) * element;
    layers_ = prefill ? 2 : static_cast<int>(std::clamp<size_t>(kColdBytes / cache_bytes_, 2, 64));
    const size_t elements = static_cast<size_t>(c.spans) * static_cast<size_t>(blocks) * static_cast<size_t>(c.kv_heads * kBlock * c.head_dim);
    for (int i = 0; i < 2 * layers_; ++i) {
      caches_.push_back(context.allocate(elements * element));
      const auto fill = dtype == DType::kF8E4M3 ? fill_codes : fill_normal;
      fill<<<1024, 256, 0, context.stream()>>>(caches_.back().as<uint32_t>(), elements * element / 4, static_cast<uint32_t>(i));
    }
    std::vector<int32_t> tables(static_cast<size_t>(c.spans * blocks)), first, rows, contexts, row_span, positions;
    std::iota(tables.begin(), tables.end(), 0);
    std::shuffle(tables.begin(), tables.end(), std::mt19937(5));
    for (int32_t s = 0; s < c.spans; ++s) {
      first.push_back(s * c.rows);
      rows.push_back(c.rows);
      contexts.push_back(c.context);
      for (int32_t r = 0; r < c.rows; ++r) row_span.push_back(s), positions.push_back(c.context + r);
    }
    for (const auto* array : {&tables, &first, &rows, &contexts, &row_span, &positions}) arrays_.push_back(to_device(context, *array));
    const size_t width = static_cast<size_t>(c.heads * c.head_dim), outputs = static_cast<size_t>(c.spans * c.rows) * width;
    q_ = context.allocate(outputs * 4);
    fill_queries<<<1024, 256, 0, context.stream()>>>(q_.as<float>(), outputs);
    out_ = context.allocate(outputs * 2);
    StepView& step = args.step;
    step.rows = c.spans * c.rows;
    step.spans = step.max_spans = c.spans;
    step.block_tables = arrays_[0].as<int32_t>();
    step.span_first_row = arrays_[1].as<int32_t>();
    step.span_rows = arrays_[2].as<int32_t>();
    step.span_context = arrays_[3].as<int32_t>();
    step.row_span = arrays_[4].as<int32_t>();
    step.positions = arrays_[5].as<int32_t>();
    step.table_stride = blocks;
    step.decode_spans = prefill ? 0 : c.spans;
    (prefill ? step.max_prefill_rows : step.max_decode_rows) = c.rows;
    (prefill ? step.max_prefill_context : step.max_context) = tokens;
    args.q = q_.as<float>();
    args.q_stride = static_cast<int64_t>(width);
    args.heads = c.heads;
    args.kv_heads = c.kv_heads;
    args.head_dim = c.head_dim;
    args.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    args.kv = {nullptr, nullptr, dtype, c.kv_heads, c.head_dim, kBlock, 0};
    args.kv_blocks = c.spans * blocks;
    args.out_bf16 = out_.as<uint16_t>();
    args.scratch_bytes = attention_scratch_bytes(step.rows, c.spans, c.heads, c.head_dim, context.facts().multiprocessors);
    scratch_ = context.allocate(args.scratch_bytes);
    args.scratch = scratch_.as<float>();
    context.synchronize();
  }

  double time() {
    const int launches = std::max(layers_, args.step.decode_spans > 0 && cache_bytes_ < (size_t{64} << 20) ? 32 : 2);
    return bench::replay_us(context_, launches, [&](int i) {
      const auto layer = static_cast<size_t>(i % layers_);
      AttentionArgs a = args;
      a.kv.k = caches_[2 * layer].data();
      a.kv.v = caches_[2 * layer + 1].data();
      attention(context_, a);
    });
  }
  size_t cache_bytes() const { return cache_bytes_; }
  double operations() const {
    const double rows = c_.rows, visible = rows * c_.context + rows * (rows + 1) / 2;
    return 4.0 * c_.head_dim * c_.heads * visible * c_.spans;
  }

  AttentionArgs args;

 private:
  Context& context_;
  Case c_;
  size_t cache_bytes_ = 0;
  int layers_ = 1;
  std::vector<Buffer> caches_, arrays_;
  Buffer q_, out_, scratch_;
};

constexpr Case kDecode[] = {
    {"8k x 32", 32, 8191, 1, 32, 8, 128}, {"8k x 1", 1, 8191, 1, 32, 8, 128},  {"1k x 64", 64, 1023, 1, 32, 8, 128},
    {"1k x 32", 32, 1023, 1, 32, 8, 128}, {"1k x 1", 1, 1023, 1, 32, 8, 128},  {"128k x 1", 1, 131071, 1, 32, 8, 128},
    {"8k x 32", 32, 8191, 1, 9, 3, 64},   {"1k x 64", 64, 1023, 1, 9, 3, 64},  {"1k x 1", 1, 1023, 1, 9, 3, 64},
    {"8k x 32", 32, 8191, 1, 24, 4, 256}, {"8k x 32", 32, 8191, 1, 32, 8, 96},
};
constexpr Case kVerify[] = {
    {"8k x 32", 32, 8184, 4, 32, 8, 128},  {"8k x 32", 32, 8184, 8, 32, 8, 128},  {"8k x 32", 32, 8176, 16, 32, 8, 128},
    {"8k x 1", 1, 8176, 16, 32, 8, 128},   {"1k x 1", 1, 1008, 16, 32, 8, 128},   {"8k x 32", 32, 8176, 16, 24, 4, 256},
    {"1k x 64", 64, 1008, 16, 9, 3, 64},
};
constexpr Case kPrefill[] = {
    {"8k", 1, 0, 8192, 32, 8, 128},       {"2k", 1, 0, 2048, 32, 8, 128},       {"2k after 6k", 1, 6144, 2048, 32, 8, 128},
    {"512 x 16", 16, 0, 512, 32, 8, 128}, {"100 after 8k", 1, 8192, 100, 32, 8, 128},
    {"8k", 1, 0, 8192, 9, 3, 64},         {"8k", 1, 0, 8192, 32, 8, 64},        {"8k", 1, 0, 8192, 32, 8, 96},
    {"8k", 1, 0, 8192, 24, 4, 256},
};

const char* short_name(DType dtype) { return dtype == DType::kF8E4M3 ? "fp8 " : "bf16"; }

void print_reads(Context& context, Context& generic, const char* op, const Case& c, DType dtype, double ceiling) {
  Step step(context, c, false, dtype);
  const double us = step.time(), rate = static_cast<double>(step.cache_bytes()) / us * 1e-3;
  std::printf("%-8s %s %-12s rows %2d  heads %2d/%d x %3d  %9.2f us  %7.1f GB/s  %5.1f %%", op, short_name(dtype), c.name, c.rows, c.heads, c.kv_heads,
              c.head_dim, us, rate, 100 * rate / ceiling);
  if (c.rows > 1) std::printf("   generic %9.2f us", Step(generic, c, false, dtype).time());
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const auto named = [&](const char* part) { return std::find(wanted.begin(), wanted.end(), part) != wanted.end(); };
  std::vector<DType> dtypes;
  if (named("bf16") || !named("fp8")) dtypes.push_back(DType::kBF16);
  if (named("fp8") || !named("bf16")) dtypes.push_back(DType::kF8E4M3);
  const bool all = wanted.size() == static_cast<size_t>(named("bf16") + named("fp8"));
  const auto want = [&](const char* part) { return all || named(part); };
  Context context(0);
  double ceiling = 0;
  {
    const Buffer pool = context.allocate(size_t{2} << 30);
    fill_normal<<<1024, 256, 0, context.stream()>>>(pool.as<uint32_t>(), pool.bytes() / 4, 3);
    const double us = bench::replay_us(context, 4, [&](int) {
      read_all<<<132 * 16, 512, 0, context.stream()>>>(pool.as<uint4>(), pool.bytes() / 16, pool.as<uint32_t>());
    });
    ceiling = static_cast<double>(pool.bytes()) / us * 1e-3;
    std::printf("%s, read ceiling %.0f GB/s\n", context.facts().name.c_str(), ceiling);
  }
  Context generic(0, 80);
  for (const DType dtype : dtypes) {
    if (want("decode"))
      for (const Case& c : kDecode) print_reads(context, generic, "decode", c, dtype, ceiling);
    if (want("verify"))
      for (const Case& c : kVerify) print_reads(context, generic, "verify", c, dtype, ceiling);
    if (want("splits"))
      for (const Case& c : {kDecode[0], kDecode[1], kDecode[2], kDecode[4], kDecode[8]}) {
        Step step(context, c, false, dtype);
        const size_t one = static_cast<size_t>(c.spans * c.rows * c.heads * (c.head_dim + 2)) * 4;
        std::printf("splits   %s %-12s heads %2d/%d x %3d, at most:", short_name(dtype), c.name, c.heads, c.kv_heads, c.head_dim);
        for (const size_t most : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128}) {
          if (most * 64 > static_cast<size_t>(c.context + c.rows)) break;
          step.args.scratch_bytes = kAttentionCounterBytes + most * one;
          if (step.args.scratch_bytes > kAttentionCounterBytes + (size_t{16} << 20)) break;
          std::printf("  %zu: %.1f", most, step.time());
        }
        std::printf(" us\n");
      }
    if (want("prefill"))
      for (const Case& c : kPrefill) {
        Step step(context, c, true, dtype), step80(generic, c, true, dtype);
        const double us = step.time(), us80 = step80.time();
        std::printf("prefill  %s %-12s rows %d x %d  heads %2d/%d x %3d  %9.1f us  %6.1f TFLOP/s   generic %9.1f us  %6.1f TFLOP/s\n",
                    short_name(dtype), c.name, c.spans, c.rows, c.heads, c.kv_heads, c.head_dim, us, step.operations() / us * 1e-6,
                    us80, step.operations() / us80 * 1e-6);
      }
  }
  return 0;
}
