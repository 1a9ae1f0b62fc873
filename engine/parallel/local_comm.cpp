// See local_comm.h.
#include "engine/parallel/local_comm.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "kernels/check.h"
#include "kernels/ops.h"

namespace slipstream {
namespace {

/// What the ranks share: a meeting point, and each rank's address for the collective in progress.
class Meeting {
 public:
  explicit Meeting(int ranks)
      : ranks_(ranks),
        spins_(ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0),
        address_(static_cast<size_t>(ranks)) {}

  int ranks() const { return ranks_; }
  void publish(int rank, const void* address) { address_[static_cast<size_t>(rank)] = address; }
  const void* published(int rank) const { return address_[static_cast<size_t>(rank)]; }

  /// Returns when every rank has arrived; throws DeviceError once the group is aborted.
  void meet() {
    const uint64_t mine = generation_.load(std::memory_order_acquire);
    {
      const std::lock_guard lock(mutex_);
      if (aborted_.load(std::memory_order_relaxed)) throw_aborted();
      if (++arrived_ == ranks_) {
        arrived_ = 0;
        generation_.fetch_add(1, std::memory_order_release);
        all_arrived_.notify_all();
        return;
      }
    }
    for (int i = 0; i < spins_; ++i) {
      if (generation_.load(std::memory_order_acquire) != mine) return;
      std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    all_arrived_.wait(lock, [&] {
      return generation_.load(std::memory_order_acquire) != mine || aborted_.load(std::memory_order_relaxed);
    });
    // A meeting that completed before the abort counts.
    if (generation_.load(std::memory_order_acquire) == mine) throw_aborted();
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_.store(true, std::memory_order_relaxed);
    all_arrived_.notify_all();
  }

 private:
  static constexpr int kSpins = 64;  // yields: about the skew between ranks of one step
  [[noreturn]] static void throw_aborted() { throw DeviceError("collective aborted: another rank failed"); }

  const int ranks_;
  const int spins_;
  std::vector<const void*> address_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  int arrived_ = 0;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> aborted_{false};
};

class LocalComm final : public Communicator {
 public:
  LocalComm(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->ranks(); }

  void all_gather(const float* in, float* out, int64_t count) override {
    meeting_->publish(rank_, in);
    meeting_->meet();
    for (int r = 0; r < size(); ++r) {
      float* target = out + static_cast<int64_t>(r) * count;
      const void* source = meeting_->published(r);
      if (target != source) std::memcpy(target, source, static_cast<size_t>(count) * sizeof(float));
    }
    meeting_->meet();  // nobody may change `in` while a peer reads it
  }

  void broadcast(void* data, size_t bytes, int root) override {
    CHECK(root >= 0 && root < size(), "broadcast root outside the group");
    meeting_->publish(rank_, data);
    meeting_->meet();
    if (rank_ != root) std::memcpy(data, meeting_->published(root), bytes);
    meeting_->meet();
  }

  void barrier() override { meeting_->meet(); }
  void abort() override { meeting_->abort(); }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_comms(int ranks) {
  CHECK(ranks >= 1, "a group needs a rank");
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::unique_ptr<Communicator>> comms;
  for (int rank = 0; rank < ranks; ++rank) comms.push_back(std::make_unique<LocalComm>(meeting, rank));
  return comms;
}

}  // namespace slipstream
