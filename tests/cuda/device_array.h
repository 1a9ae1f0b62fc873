// Host arrays on the device and back, for tests of single kernels.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/context.h"

namespace slipstream::cuda::test {

/// On the stream, behind the zeroing of the buffer.
template <typename T>
Buffer to_device(Context& context, const std::vector<T>& host) {
  Buffer buffer = context.allocate(std::max<size_t>(1, host.size()) * sizeof(T));
  check(cudaMemcpyAsync(buffer.data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice, context.stream()), "upload");
  context.synchronize();
  return buffer;
}

template <typename T>
std::vector<T> to_host(Context& context, const Buffer& buffer, size_t count) {
  std::vector<T> host(count);
  context.synchronize();
  check(cudaMemcpy(host.data(), buffer.data(), count * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return host;
}

}  // namespace slipstream::cuda::test
