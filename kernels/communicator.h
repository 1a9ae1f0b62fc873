// Collectives between the ranks of one engine. One Communicator per rank; each method is called by that rank's
// thread alone and by every rank in the same order. LocalComm (engine/parallel) joins threads of one process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// out[r * count .. ) = in of rank r, for every rank r. in may alias out + rank * count.
  virtual void all_gather(const float* in, float* out, int64_t count) = 0;
  /// data of `root` replaces data on every rank.
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  virtual void barrier() = 0;
  /// Wakes every rank that waits in a collective; their calls throw DeviceError. Any thread.
  virtual void abort() = 0;
};

}  // namespace slipstream
