#include "kernels/cuda/linear_blas.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace slipstream::cuda {

struct BlasLt::Library {
  void* handle = nullptr;
  cublasLtHandle_t lt = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  template <class F>
  bool find(F* function, const char* name) {
    *function = reinterpret_cast<F>(dlsym(handle, name));
    return *function != nullptr;
  }
  bool find_all() {
    return find(&create, "cublasLtCreate") && find(&destroy, "cublasLtDestroy") &&
           find(&desc_create, "cublasLtMatmulDescCreate") && find(&desc_destroy, "cublasLtMatmulDescDestroy") &&
           find(&desc_set, "cublasLtMatmulDescSetAttribute") && find(&layout_create, "cublasLtMatrixLayoutCreate") &&
           find(&layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(&preference_create, "cublasLtMatmulPreferenceCreate") &&
           find(&preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(&preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
           find(&heuristic, "cublasLtMatmulAlgoGetHeuristic") && find(&matmul, "cublasLtMatmul");
  }
};

struct BlasLt::Cache {
  // dtype, what happens to the rows, n, k, rows: a bucket, or exact_rows of multiply
  using Key = std::tuple<DType, BlasOut, int64_t, int64_t, int64_t>;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms;
};

namespace {

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError("cuBLASLt: " + std::string(what) + " failed with status " + std::to_string(static_cast<int>(status)));
}

}  // namespace

int32_t row_bucket(int32_t m) {
  int32_t bucket = 1;
  while (bucket < m) bucket *= 2;
  return bucket;
}

namespace {

/// Descriptors of one product. Column-major to the library: out^T [n, m] = w^T' x, with w stored as [k, n].
template <class Library>
struct Descriptors {
  const Library& lib;
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;

  Descriptors(const Library& library, const BlasProduct& p) : lib(library) {
    const cudaDataType_t type = p.dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
    const auto rows = static_cast<uint64_t>(p.m);
    const auto n = static_cast<uint64_t>(p.n);
    const auto k = static_cast<uint64_t>(p.k);
    check_blas(lib.desc_create(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "MatmulDescCreate");
    const cublasOperation_t transpose = CUBLAS_OP_T;
    check_blas(lib.desc_set(op, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose), "MatmulDescSetAttribute");
    if (p.bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      check_blas(lib.desc_set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "MatmulDescSetAttribute");
      check_blas(lib.desc_set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias), "MatmulDescSetAttribute");
      const cudaDataType_t bias_type = CUDA_R_32F;
      check_blas(lib.desc_set(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type), "MatmulDescSetAttribute");
    }
    check_blas(lib.layout_create(&w, type, k, n, p.k), "MatrixLayoutCreate");
    check_blas(lib.layout_create(&x, type, k, rows, p.k), "MatrixLayoutCreate");
    check_blas(lib.layout_create(&out, p.kind == BlasOut::kBF16 ? CUDA_R_16BF : CUDA_R_32F, n, rows, p.out_stride), "MatrixLayoutCreate");
  }
  ~Descriptors() {
    lib.layout_destroy(w);
    lib.layout_destroy(x);
    lib.layout_destroy(out);
    lib.desc_destroy(op);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(int count) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check_blas(lib.preference_create(&preference), "MatmulPreferenceCreate");
    const size_t bytes = BlasLt::kWorkspaceBytes;
    lib.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
    int found = 0;
    const cublasStatus_t status = lib.heuristic(lib.lt, op, w, x, out, out, preference, count, results.data(), &found);
    lib.preference_destroy(preference);
    check_blas(status, "MatmulAlgoGetHeuristic");
    results.resize(static_cast<size_t>(found));
    return results;
  }
  cublasStatus_t run(const BlasProduct& p, const cublasLtMatmulAlgo_t& algorithm, void* workspace, cudaStream_t stream) const {
    const float one = 1.0f;
    const float keep = p.kind == BlasOut::kAddToFloat ? 1.0f : 0.0f;
    return lib.matmul(lib.lt, op, &one, p.w, w, p.x, x, &keep, p.out, out, p.out, out, &algorithm, workspace,
                      BlasLt::kWorkspaceBytes, stream);
  }
};

}  // namespace

BlasLt::BlasLt() : library_(std::make_unique<Library>()), cache_(std::make_unique<Cache>()) {}

BlasLt::~BlasLt() {
  if (library_->lt != nullptr) library_->destroy(library_->lt);
  // The library stays mapped: it registers exit handlers of its own.
}

std::unique_ptr<BlasLt> BlasLt::load(std::string* why) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::unique_ptr<BlasLt> blas(new BlasLt);
  Library& lib = *blas->library_;
  for (const std::string& path : {name, "/usr/local/cuda/lib64/" + name, "/usr/local/cuda/targets/x86_64-linux/lib/" + name}) {
    lib.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (lib.handle != nullptr) break;
  }
  std::string reason;
  if (lib.handle == nullptr) {
    reason = name + " is not on the library path (LD_LIBRARY_PATH)";
  } else if (!lib.find_all()) {
    reason = name + " lacks a function that is needed";
  } else if (const cublasStatus_t status = lib.create(&lib.lt); status != CUBLAS_STATUS_SUCCESS) {
    reason = "cublasLtCreate failed with status " + std::to_string(static_cast<int>(status));
  }
  if (reason.empty()) return blas;
  if (why != nullptr) *why = reason;
  return nullptr;
}

float BlasLt::tune(Context& context, const BlasProduct& p, void* workspace, void* flush, size_t flush_bytes) {
  constexpr int kCandidates = 8;
  constexpr int kRepeats = 3;
  const Descriptors<Library> d(*library_, p);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  float best = -1;
  for (const cublasLtMatmulHeuristicResult_t& candidate : d.candidates(kCandidates)) {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
    float times[kRepeats];
    bool works = true;
    for (int i = -1; i < kRepeats && works; ++i) {  // the first one loads the kernel
      if (flush_bytes > 0) check(cudaMemsetAsync(flush, 0, flush_bytes, context.stream()), "cudaMemsetAsync");
      check(cudaEventRecord(begin, context.stream()), "cudaEventRecord");
      works = d.run(p, candidate.algo, workspace, context.stream()) == CUBLAS_STATUS_SUCCESS;
      check(cudaEventRecord(end, context.stream()), "cudaEventRecord");
      check(cudaEventSynchronize(end), "tuning a product");
      if (i >= 0) check(cudaEventElapsedTime(&times[i], begin, end), "cudaEventElapsedTime");
    }
    if (!works) continue;
    std::sort(times, times + kRepeats);
    if (best < 0 || times[kRepeats / 2] < best) {
      best = times[kRepeats / 2];
      cache_->algorithms[{p.dtype, p.kind, p.n, p.k, row_bucket(p.m)}] = candidate.algo;
    }
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return best * 1000.0f;
}

void BlasLt::multiply(Context& context, const BlasProduct& p, void* workspace) {
  const Descriptors<Library> d(*library_, p);
  // What was not tuned (an odd row count that the tuned algorithm refuses, an epilogue) asks the library once.
  const int64_t exact_rows = -(2 * int64_t{p.m} + (p.bias != nullptr ? 1 : 0));
  for (const int64_t rows : {int64_t{row_bucket(p.m)}, exact_rows}) {
    const auto known = cache_->algorithms.find({p.dtype, p.kind, p.n, p.k, rows});
    if (known != cache_->algorithms.end() && d.run(p, known->second, workspace, context.stream()) == CUBLAS_STATUS_SUCCESS) return;
  }
  for (const cublasLtMatmulHeuristicResult_t& candidate : d.candidates(4)) {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
    if (d.run(p, candidate.algo, workspace, context.stream()) != CUBLAS_STATUS_SUCCESS) continue;
    cache_->algorithms[{p.dtype, p.kind, p.n, p.k, exact_rows}] = candidate.algo;
    return;
  }
  throw DeviceError("cuBLASLt has no algorithm for " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
                    std::to_string(p.k));
}

}  // namespace slipstream::cuda
