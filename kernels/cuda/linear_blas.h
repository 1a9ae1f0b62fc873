// cuBLASLt for products with many rows: loaded at run time, so that a program with these kernels starts without it.
// Owns the library handle and, for each shape, the algorithm that was fastest on this GPU. Knows no quantised format.
//
// Thread: the worker thread of its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/tensor.h"

namespace slipstream::cuda {

/// What a product does with its rows.
enum class BlasOut : uint8_t { kFloat, kBF16, kAddToFloat };

/// out [m, n] = x [m, k] w [n, k]^T + bias, all row-major; row r of out at out + r * out_stride elements.
struct BlasProduct {
  DType dtype = DType::kBF16;  // of w and x: kBF16 or kF16
  int32_t m = 0;
  int64_t n = 0, k = 0;        // k is a multiple of 8
  const void* w = nullptr;
  const void* x = nullptr;
  const float* bias = nullptr; // [n] or null; null where out is BF16
  void* out = nullptr;
  int64_t out_stride = 0;
  BlasOut kind = BlasOut::kFloat;  // kBF16: from BF16 operands only
};

class BlasLt {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  /// Null where the library cannot be loaded; `why` then says so in one line.
  static std::unique_ptr<BlasLt> load(std::string* why);
  ~BlasLt();

  /// Times the library's candidates for rows up to m (with caches cold: `flush` is scratch at least as large as L2) and
  /// keeps the fastest. Synchronises; before warm-up only. Returns its microseconds.
  float tune(Context& context, const BlasProduct& product, void* workspace, void* flush, size_t flush_bytes);
  /// Throws DeviceError when the library refuses the product.
  void multiply(Context& context, const BlasProduct& product, void* workspace);

 private:
  struct Library;
  struct Cache;
  BlasLt();
  std::unique_ptr<Library> library_;
  std::unique_ptr<Cache> cache_;
};

/// Rows for which one measurement stands: the next power of two.
int32_t row_bucket(int32_t m);

}  // namespace slipstream::cuda
