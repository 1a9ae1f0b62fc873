// A captured graph: launches recorded once and replayed. Owns the executable graph; knows nothing of what it launches.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <utility>

#include "kernels/cuda/context.h"

namespace slipstream::cuda {

class Graph {
 public:
  Graph() = default;
  /// Records what `launch` puts on the context's stream; nothing runs. Throws DeviceError.
  Graph(Context& context, const std::function<void()>& launch) {
    check(capture(context, launch, this), "cudaGraphInstantiate");
  }
  Graph(Graph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Graph() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }
  void replay(Context& context) const { check(cudaGraphLaunch(exec_, context.stream()), "cudaGraphLaunch"); }

  /// For callers that can go on without a graph: the status of its instantiation, which is where memory runs out.
  static cudaError_t capture(Context& context, const std::function<void()>& launch, Graph* out) {
    check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    launch();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(context.stream(), &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&out->exec_, graph, 0);
    cudaGraphDestroy(graph);
    return status;
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace slipstream::cuda
