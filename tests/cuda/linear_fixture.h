// A GPU with what products need, and activations in every form, for the linear tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/linear.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/feature_level.h"
#include "tests/ops/ops_fixture.h"

namespace slipstream::cuda::test {

inline bool is_block(DType dtype) { return dtype_info(dtype).block_elements > 1; }

struct LinearGpu {
  explicit LinearGpu(int32_t feature_arch = slipstream::test::feature_arch(), bool deterministic = false)
      : context(0, feature_arch, deterministic) {}
  Context context;
  LinearScratch scratch{context};
  WeightStream stream{context};
};

/// An activation on the device in the forms asked for, and the values that a kernel sees in each.
struct DeviceRows {
  Activation x;
  std::vector<float> as_int8, as_bf16, as_f32;
  std::vector<Buffer> memory;

  DeviceRows(Context& context, const std::vector<float>& values, int32_t rows, int64_t cols, uint8_t forms) : as_f32(values) {
    x.max_rows = x.rows = rows;
    x.cols = cols;
    x.forms = forms;
    if ((forms & kActF32) != 0) x.f32 = keep<float>(context, values);
    std::vector<uint16_t> bf16;
    for (const float v : values) {
      bf16.push_back(f32_to_bf16(v));
      as_bf16.push_back(bf16_to_f32(bf16.back()));
    }
    if ((forms & kActBF16) != 0) x.bf16 = keep<uint16_t>(context, bf16);
    if ((forms & kActInt8Block32) == 0) return;
    std::vector<int8_t> q(values.size());
    std::vector<float> scale(values.size() / 32);
    std::vector<int32_t> sum(values.size() / 32);
    Activation host = x;
    host.f32 = nullptr, host.q = q.data(), host.scale = scale.data(), host.sum = sum.data();
    auto reference = make_reference_ops();
    slipstream::test::fill_activation(*reference, &host, values, rows);
    for (size_t i = 0; i < values.size(); ++i) as_int8.push_back(static_cast<float>(q[i]) * scale[i / 32]);
    x.q = keep<int8_t>(context, q);
    x.scale = keep<float>(context, scale);
    x.sum = keep<int32_t>(context, sum);
  }
  template <typename T>
  T* keep(Context& context, const std::vector<T>& host) {
    memory.push_back(to_device(context, host));
    return memory.back().as<T>();
  }
};

inline uint8_t wanted_forms(DType dtype) { return is_block(dtype) ? kActInt8Block32 : dtype == DType::kF32 ? kActF32 : kActBF16; }

}  // namespace slipstream::cuda::test
