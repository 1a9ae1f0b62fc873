// The ground rules that every container shares: names are unique, tensors lie inside the data, none overlap.
// Owns the check; knows neither container.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "kernels/tensor.h"

namespace slipstream {

inline constexpr uint64_t kMaxTensors = 1'000'000;

/// One tensor of a header. The walkers reuse one object for all of them, so that a bad header costs no memory.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::string_view unserved;   // as TensorEntry::unserved
  std::vector<int64_t> shape;  // row-major
  uint64_t begin = 0;          // relative to the data section
  uint64_t bytes = 0;
};
using TensorVisitor = std::function<Status(const StoredTensor&)>;

/// Where each tensor lies, in 24 bytes each and without its name.
class ExtentTable {
 public:
  Status add(const StoredTensor& tensor);
  /// Names unique, all inside [0, data_bytes), no overlap; with `dense`, also no byte without a tensor. `walk` goes
  /// through the tensors again, to name the ones at fault.
  Status check(bool dense, uint64_t data_bytes, const std::function<Status(const TensorVisitor&)>& walk);

 private:
  struct Extent {
    uint64_t begin, end, name_hash;
  };
  std::deque<Extent> extents_;  // grows without copying
};

/// product(shape), or an error for an overflow of 63 bits.
Result<uint64_t> element_count(const std::vector<int64_t>& shape);

}  // namespace slipstream
