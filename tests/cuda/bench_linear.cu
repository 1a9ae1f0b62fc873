// Times the linear kernels: each block shape for a few formats and sizes, then what the dispatch chooses for the shapes of
// an 8B model. Weights rotate through more memory than L2 holds; times are medians of graph replays.
//   bench_linear [model | blas | dequantise | shapes]...
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_f8.cuh"
#include "kernels/cuda/linear_float.cuh"
#include "kernels/cuda/linear_quant.cuh"
#include "kernels/cuda/linear_shape.h"
#include "tests/cuda/bench_clock.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

constexpr size_t kPoolBytes = size_t{1} << 30;

__global__ void random_bytes(uint32_t* data, size_t words, uint32_t seed) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 0x9e3779b9u + seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    data[i] = x;
  }
}
/// Values of about +-1 in BF16 (and near 1.0 as halves).
__global__ void random_bf16(uint16_t* data, size_t count) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
    data[i] = static_cast<uint16_t>(0x3f00u | ((x >> 20) & 0x7fu) | ((x >> 3) & 0x8000u));
  }
}
__global__ void fill(float* data, size_t count, float value) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) data[i] = value;
}
__global__ void read_all(const uint4* data, size_t count, uint32_t* out) {
  uint32_t sum = 0;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint4 v = data[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *out = sum;
}

struct Bench {
  Context context{0};
  LinearScratch scratch{context};
  Buffer pool = context.allocate(kPoolBytes);        // random bytes
  Buffer pool_bf16 = context.allocate(kPoolBytes);
  Buffer q = context.allocate(size_t{256} * 16384);
  Buffer bf16 = context.allocate(size_t{8192} * 16384 * 2);
  Buffer scale = context.allocate(size_t{16} << 20);   // of activations, or of FP8 weights
  Buffer out = context.allocate(size_t{1} << 30);
  Buffer workspace = context.allocate(BlasLt::kWorkspaceBytes);
  double ceiling = 0;  // bytes / us

  Bench() {
    random_bytes<<<1024, 256, 0, context.stream()>>>(pool.as<uint32_t>(), kPoolBytes / 4, 1);
    random_bf16<<<1024, 256, 0, context.stream()>>>(pool_bf16.as<uint16_t>(), kPoolBytes / 2);
    random_bytes<<<1024, 256, 0, context.stream()>>>(q.as<uint32_t>(), q.bytes() / 4, 2);
    random_bf16<<<1024, 256, 0, context.stream()>>>(bf16.as<uint16_t>(), bf16.bytes() / 2);
    fill<<<256, 256, 0, context.stream()>>>(scale.as<float>(), scale.bytes() / 4, 0.01f);
    context.synchronize();
    const double us = time(1, [&](int) {
      read_all<<<context.facts().multiprocessors * 8, 512, 0, context.stream()>>>(pool.as<uint4>(), kPoolBytes / 16, out.as<uint32_t>());
    });
    ceiling = static_cast<double>(kPoolBytes) / us;
    std::printf("read ceiling %.0f GB/s, %d SMs\n", ceiling / 1e3, context.facts().multiprocessors);
  }

  /// Median microseconds of one launch(i), i rotating over `copies`.
  double time(int copies, const std::function<void(int)>& launch) {
    return bench::replay_us(context, std::max(copies, 8), [&](int i) { launch(i % copies); });
  }

  struct Timed {
    double us, share;
  };
  Timed timed(DType dtype, int64_t n, int64_t k, int32_t m, const TileShape& shape) {
    const bool block = packed_format(dtype).bits != 0;
    const int64_t tiles = (n + 15) / 16;
    const int64_t tile_bytes = block ? packed_format(dtype).tile_bytes(k) : 16 * row_bytes(dtype, k);
    const int64_t bytes = tiles * tile_bytes;
    const int copies = static_cast<int>(std::max<int64_t>(1, static_cast<int64_t>(kPoolBytes) / bytes));
    const int64_t minimum = n * row_bytes(dtype, k) + int64_t{m} * (k + 4 * n);
    const double us = time(std::min(copies, 64), [&](int i) {
      LinearOutput o{nullptr, out.as<float>(), n, m, static_cast<int32_t>(n), shape.splits, scratch.partials(), scratch.counters()};
      if (block) {
        QuantLinearParams p{pool.as<uint8_t>() + i * bytes, tile_bytes, static_cast<int32_t>(tiles), static_cast<int32_t>(k),
                            q.as<int8_t>(), scale.as<float>(), scale.as<int32_t>(), shape.stages, o};
        launch_quant(context, dtype, p, shape);
      } else if (dtype == DType::kF8E4M3) {
        const F8Scales scales{scale.as<float>(), 16, static_cast<int32_t>((k + 127) / 128), 128, 0};
        launch_f8(context, {pool.as<uint8_t>() + i * bytes, scales, static_cast<int32_t>(k), bf16.as<uint16_t>(), shape.stages, o}, shape);
      } else {
        FloatLinearParams p{reinterpret_cast<uint16_t*>(pool_bf16.as<uint8_t>() + i * bytes), static_cast<int32_t>(k),
                            bf16.as<uint16_t>(), shape.stages, o};
        launch_float(context, dtype, p, shape);
      }
    });
    return {us, static_cast<double>(minimum) / us / ceiling};
  }

  size_t shared(DType dtype, const TileShape& s, int32_t m) {
    if (dtype == DType::kF8E4M3) return f8_shared_bytes(s, m);
    return packed_format(dtype).bits != 0 ? quant_shared_bytes(dtype, s, m) : float_shared_bytes(s, m);
  }
  TileShape chosen(DType dtype, int64_t n, int64_t k, int32_t m) {
    return choose_shape(context, dtype, m, n, k);
  }
};

void shapes(Bench& b) {
  std::printf("best shapes (nt wr wk stages splits blocks/SM: us, share of the ceiling); * is what the dispatch chooses\n");
  struct Case {
    DType dtype;
    int64_t n, k;
  };
  const std::vector<Case> cases = {{DType::kQ4_K, 4096, 14336}, {DType::kQ8_0, 4096, 14336}, {DType::kQ4_K, 24576, 4096},
                                   {DType::kQ4_K, 4096, 4096},  {DType::kBF16, 4096, 4096},  {DType::kBF16, 24576, 4096},
                                   {DType::kBF16, 4096, 12288}, {DType::kBF16, 6144, 4096},  {DType::kQ6_K, 4096, 12288},
                                   {DType::kQ4_1, 3072, 576},   {DType::kF8E4M3, 4096, 4096},  {DType::kF8E4M3, 24576, 4096},
                                   {DType::kF8E4M3, 4096, 12288}, {DType::kF8E4M3, 6144, 4096}};
  for (const Case& c : cases)
    for (const int32_t m : {1, 8, 16, 32, 64}) {
      std::vector<std::pair<double, std::string>> all;
#define SLIPSTREAM_ADD(NT, WR, WK)                                                                                    \
  for (const int stages : {2, 3, 4})                                                                                  \
    for (const int splits : {1, 2, 4, 8})                                                                             \
      for (const int per_sm : {0, 1, 2, 3}) {                                                                         \
        TileShape s{NT, WR, WK, stages, splits, per_sm * b.context.facts().multiprocessors};                                                     \
        const int64_t blocks = (c.n + 16 * s.wr - 1) / (16 * s.wr);                                                   \
        if (per_sm > 0 && (blocks <= s.blocks || splits > 1)) continue;                                               \
        if ((m > 8 * NT && NT < 4) || (NT > 1 && m <= 4 * NT) || (m > 32 && NT < 8 && splits > 1)) continue;          \
        if (splits > 1 && blocks * splits > 4 * b.context.facts().multiprocessors) continue;                                                        \
        if (b.shared(c.dtype, s, m) > b.context.shared_bytes_per_block()) continue;                                   \
        const auto t = b.timed(c.dtype, c.n, c.k, m, s);                                                              \
        char line[96];                                                                                                \
        std::snprintf(line, sizeof line, "%d %d %d %d %d %d: %.2f us %.1f%%", NT, WR, WK, stages, splits, per_sm, t.us, \
                      100 * t.share);                                                                                 \
        all.push_back({t.us, line});                                                                                  \
      }
      SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_ADD)
      std::sort(all.begin(), all.end());
      const TileShape s = b.chosen(c.dtype, c.n, c.k, m);
      const auto t = b.timed(c.dtype, c.n, c.k, m, s);
      std::printf("%s %ldx%ld M %d", std::string(dtype_info(c.dtype).name).c_str(), static_cast<long>(c.n), static_cast<long>(c.k), m);
      for (size_t i = 0; i < std::min<size_t>(all.size(), 4); ++i) std::printf(" | %s", all[i].second.c_str());
      std::printf(" | * %d %d %d %d %d %d: %.2f us %.1f%%\n", s.nt, s.wr, s.wk, s.stages, s.splits, s.blocks / b.context.facts().multiprocessors, t.us, 100 * t.share);
      std::fflush(stdout);
    }
}

void model(Bench& b) {
  struct Case {
    const char* name;
    int64_t n, k;
    int layers;
  };
  const std::vector<Case> cases = {{"qkv", 6144, 4096, 36}, {"o", 4096, 4096, 36}, {"gate|up", 24576, 4096, 36},
                                   {"down", 4096, 12288, 36}, {"head", 151936, 4096, 1}};
  std::printf("8B shapes, the best of the candidates: us a launch (share of the ceiling; nt wr wk, stages, splits, blocks an SM), and all layers in ms\n");
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kQ4_K, DType::kQ8_0})
    for (const int32_t m : {1, 8, 16, 32, 64}) {
      double total = 0;
      std::printf("%s M %d:", std::string(dtype_info(dtype).name).c_str(), m);
      for (const Case& c : cases) {
        auto t = b.timed(dtype, c.n, c.k, m, b.chosen(dtype, c.n, c.k, m));
        TileShape best = b.chosen(dtype, c.n, c.k, m);
        for (const TileShape& s : candidate_shapes(b.context, dtype, m, c.n, c.k)) {
          const auto other = b.timed(dtype, c.n, c.k, m, s);
          if (other.us < t.us) t = other, best = s;
        }
        total += t.us * c.layers;
        std::printf("  %s %.1f (%.0f%%; %d%d%d %d %d %d)", c.name, t.us, 100 * t.share, best.nt, best.wr, best.wk, best.stages,
                    best.splits, best.blocks / b.context.facts().multiprocessors);
      }
      std::printf("  total %.2f ms\n", total / 1000);
      std::fflush(stdout);
    }
}

void blas(Bench& b) {
  BlasLt* lt = b.scratch.blas();
  if (lt == nullptr) {
    std::printf("no cuBLASLt: %s\n", b.scratch.no_blas_reason().c_str());
    return;
  }
  std::printf("cuBLASLt BF16, tuned: us, TFLOP/s, share of the read ceiling\n");
  struct Case {
    int64_t n, k;
  };
  for (const Case& c : {Case{6144, 4096}, Case{4096, 4096}, Case{24576, 4096}, Case{4096, 12288}, Case{151936, 4096}})
    for (const int32_t m : {16, 32, 64, 128, 512, 2048, 8192}) {
      if (c.n * m * 4 > (int64_t{1} << 30)) continue;
      const int64_t bytes = c.n * c.k * 2;
      if (bytes > static_cast<int64_t>(kPoolBytes)) continue;
      const int copies = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(16, static_cast<int64_t>(kPoolBytes) / bytes)));
      BlasProduct p{DType::kBF16, m, c.n, c.k, b.pool_bf16.data(), b.bf16.data(), nullptr, b.out.as<float>(), c.n};
      const float tuned = lt->tune(b.context, p, b.workspace.data(), b.pool.data(), size_t{128} << 20);
      const double us = b.time(copies, [&](int i) {
        BlasProduct one = p;
        one.w = b.pool_bf16.as<std::byte>() + i * bytes;
        lt->multiply(b.context, one, b.workspace.data());
      });
      std::printf("%ldx%ld M %d: %.1f us (tuning saw %.1f)  %.0f TFLOP/s  %.0f%%\n", static_cast<long>(c.n), static_cast<long>(c.k),
                  m, us, tuned, 2e-6 * m * static_cast<double>(c.n * c.k) / us,
                  100.0 * static_cast<double>(bytes + m * (2 * c.k + 4 * c.n)) / us / b.ceiling);
      std::fflush(stdout);
    }
}

/// What dequantising costs a prefill.
void dequantise(Bench& b) {
  for (const DType dtype : {DType::kQ4_K, DType::kQ8_0, DType::kQ6_K, DType::kIQ4_XS}) {
    WeightSegment s{dtype, 0, 8192, b.pool.as<std::byte>(), packed_format(dtype).tile_bytes(4096)};
    const double us = b.time(1, [&](int) { dequantise_rows(b.context, s, 4096, 0, 8192, b.out.as<uint16_t>()); });
    std::printf("dequantise %s 8192x4096: %.1f us, %.0f GB/s read and written\n", std::string(dtype_info(dtype).name).c_str(), us,
                static_cast<double>(512 * s.tile_bytes + 8192 * 4096 * 2) / us / 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Bench bench;
    const std::map<std::string, void (*)(Bench&)> parts = {{"model", model}, {"blas", blas}, {"dequantise", dequantise}, {"shapes", shapes}};
    for (int i = 1; i < argc; ++i) {
      const auto part = parts.find(argv[i]);
      if (part != parts.end()) part->second(bench);
    }
  } catch (const std::exception& e) {
    std::printf("failed: %s\n", e.what());
    return 1;
  }
  return 0;
}
