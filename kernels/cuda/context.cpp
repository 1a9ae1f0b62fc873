// See context.h.
#include "kernels/cuda/context.h"

#include <algorithm>

#include "kernels/gpu_support.h"

namespace slipstream::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string("CUDA: ") + what + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

namespace {

DeviceFacts facts_of(int32_t ordinal) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, ordinal), "cudaGetDeviceProperties");
  DeviceFacts facts;
  facts.ordinal = ordinal;
  facts.name = p.name;
  facts.arch = 10 * p.major + p.minor;
  facts.multiprocessors = p.multiProcessorCount;
  facts.memory_bytes = p.totalGlobalMem;
  facts.l2_bytes = static_cast<size_t>(p.l2CacheSize);
  facts.shared_bytes_per_block = p.sharedMemPerBlockOptin;
  check(cudaDriverGetVersion(&facts.driver_version), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&facts.runtime_version), "cudaRuntimeGetVersion");
  return facts;
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

/// In the operator's terms: the runtime gives the same error for no driver and for an old one.
std::string why_no_device(cudaError_t status) {
  int driver = 0;
  const bool known = cudaDriverGetVersion(&driver) == cudaSuccess;
  cudaGetLastError();
  if (known && driver == 0) return "no NVIDIA driver is loaded";
  if (status == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is for CUDA " + version_text(driver) + "; this build needs one for CUDA " + version_text(CUDART_VERSION);
  if (status == cudaSuccess || status == cudaErrorNoDevice) return "the driver reports no GPU";
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}

}  // namespace

std::string_view built_targets() { return SLIPSTREAM_CUDA_ARCHS_TEXT; }

std::vector<DeviceFacts> devices(std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();  // a missing driver must not surface in a later check
    if (why != nullptr) *why = why_no_device(status);
    return {};
  }
  std::vector<DeviceFacts> all;
  for (int i = 0; i < count; ++i) all.push_back(facts_of(i));
  return all;
}

Context::Context(int32_t ordinal, int32_t feature_arch, bool deterministic) : deterministic_(deterministic) {
  std::string why;
  const std::vector<DeviceFacts> all = devices(&why);
  if (all.empty()) throw DeviceError("CUDA: no usable GPU: " + why);
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= all.size())
    throw DeviceError("CUDA: GPU " + std::to_string(ordinal) + " does not exist; there are " + std::to_string(all.size()));
  facts_ = all[static_cast<size_t>(ordinal)];
  for (const std::string& reason : {no_kernels_reason(facts_.name, facts_.arch, built_targets()),
                                    feature_level_reason(feature_arch, facts_.arch)})
    if (!reason.empty()) throw DeviceError("CUDA: " + reason);
  feature_arch_ = feature_arch == 0 ? facts_.arch : feature_arch;
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Context::Context(const Context& real, DryRun)
    : facts_(real.facts_), feature_arch_(real.feature_arch_), deterministic_(real.deterministic_), stream_(real.stream_), dry_(true) {}

Context::~Context() {
  if (stream_ != nullptr && !dry_) cudaStreamDestroy(stream_);
}

size_t Context::shared_bytes_per_block() const {
  constexpr size_t kGeneric = 99 * 1024;  // SM86, SM89 and SM120
  return feature_arch_ == facts_.arch ? facts_.shared_bytes_per_block : std::min(kGeneric, facts_.shared_bytes_per_block);
}

Buffer Context::allocate(size_t bytes) {
  if (bytes == 0) return {};
  if (dry_) {
    count(bytes);
    constexpr uintptr_t kNowhere = 256;  // aligned as real memory is
    return Buffer(reinterpret_cast<void*>(kNowhere), bytes, [this](void*, size_t n) { allocated_bytes_ -= n; });
  }
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status != cudaSuccess) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw DeviceError("CUDA: cannot allocate " + std::to_string(bytes) + " bytes on " + facts_.name + ": " +
                      std::to_string(free) + " of " + std::to_string(total) + " bytes are free; lower gpu-memory-utilization, "
                      "max-model-len or max-num-seqs (" + cudaGetErrorName(status) + ")");
  }
  count(bytes);
  check(cudaMemsetAsync(data, 0, bytes, stream_), "cudaMemsetAsync");
  return Buffer(data, bytes, [this](void* p, size_t n) {
    cudaFree(p);
    allocated_bytes_ -= n;
  });
}

void Context::count(size_t bytes) {
  ++allocations_;
  allocated_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
}

void Context::synchronize() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

void Context::check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace slipstream::cuda
