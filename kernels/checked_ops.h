// CheckedOps: each op of a backend against the reference on the backend's own inputs, so that errors do not accumulate and
// the first failure names the op that is wrong. For tests and doctor: slow, allocates. Knows Ops alone; no model.
//
// The backend may have memory of its own: inputs and outputs are brought to the host, and the reference works on copies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops_decorators.h"

namespace slipstream {

/// One comparison that failed.
struct CheckFailure {
  std::string op;      // "linear", "attention", "qkv_norm_rope_cache, k"
  std::string tensor;  // of the op's weight: "blk.0.ffn_up.weight"; empty for an op without one
  std::string format;  // the tensor's: "Q4_1"
  std::string after;   // for an op without a weight: the last tensor before it
  int32_t row = 0;
  int64_t column = 0;  // the first element that is off by itself; where none is, the worst
  double got = 0, want = 0;  // that element
  double error = 0;    // root mean square error over the root mean square of the reference row
  double bound = 0;
  std::string text() const;
};

/// What one op family came to.
struct CheckTally {
  int64_t cases = 0;   // rows compared
  int64_t failed = 0;
  double error = 0;    // the one that came nearest to its bound, or went furthest past it
  double bound = 0;
};

/// The files behind the weights must stay mapped. Rows that live on the device alone (StepInputs::device_owned) cannot be
/// checked.
class CheckedOps final : public ForwardingOps {
 public:
  /// reference_threads: products are shared between so many threads; the values do not depend on it.
  explicit CheckedOps(Ops& inner, int32_t reference_threads = 1);
  ~CheckedOps() override;

  /// While off, ops run on the inner backend alone.
  void set_checking(bool on) { checking_ = on; }
  /// Only ops whose weight (or, for an op without one, the last weight before it) has a name that passes are checked.
  void set_filter(std::function<bool(std::string_view tensor)> filter) { filter_ = std::move(filter); }
  /// Called before each op that is checked, with its name and tensor.
  void set_listener(std::function<void(std::string_view op, std::string_view tensor)> listener) { listener_ = std::move(listener); }

  int64_t comparisons() const { return comparisons_; }
  /// In the order of the ops; at most kMaxFailures, the tallies count the rest.
  const std::vector<CheckFailure>& failures() const { return failures_; }
  /// By family: "linear Q4_1", "attention".
  const std::map<std::string, CheckTally>& tallies() const { return tallies_; }
  static constexpr size_t kMaxFailures = 100;

  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override;
  uint8_t activation_forms(const Weight& weight) const override;
  /// With floats beside the other forms, so that a backend has nothing to put off until a later op.
  Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) override;
  void embed(const Weight& table, const StepInputs& step, float scale, float* out) override;
  void rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) override;
  void store_rows(const float* x, int32_t rows, Activation* out) override;
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override;
  void row_linear_partials(const Weight& w, const Activation& x, float* partials) override;
  void qkv_norm_rope_cache(const QkvParams& params) override;
  void attention(const AttentionParams& params) override;
  void swiglu(const float* gate_up, int32_t rows, Activation* out) override;
  void gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) override;
  void sample(const SampleBatch& batch) override;
  void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                           const float* norm, float eps, Activation* out) override;
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                       int64_t cols, const float* norm, float eps, Activation* out) override;

 private:
  struct HostActivation;
  struct Where;

  template <typename T>
  std::vector<T> host(const T* device, int64_t count) const {
    std::vector<T> values(device == nullptr ? 0 : static_cast<size_t>(count));
    if (!values.empty()) inner().download(values.data(), device, values.size() * sizeof(T));
    return values;
  }
  /// Whether the op is to be checked; also notes its tensor and tells the listener.
  bool checks(const char* op, const Weight* weight);
  /// Distance of got to want over columns [first, first + count) of row r.
  CheckFailure measure(const Where& where, const float* got, const float* want, int32_t r, double bound) const;
  void record(const std::string& family, CheckFailure outcome);
  void compare(const std::string& op, const float* got, const float* want, int32_t rows, int64_t cols, double bound);
  void compare_activation(const std::string& op, const Activation& got, const std::vector<float>& want, double bound);
  void compare_int8(const std::string& op, const Activation& got, const std::vector<float>& want, double bound);
  /// got [x.rows, w.rows()] on the host. reference(input, want) is the oracle's product of one form of x.
  void compare_product(const char* op, const Weight& w, const Activation& x, const std::vector<float>& got, double slack,
                       const std::function<void(const Activation&, float*)>& reference);
  void compare_norm(const char* op, const std::vector<float>& x, int32_t rows, const float* weight, float eps, const Activation& out);

  std::unique_ptr<Ops> reference_;
  bool checking_ = true;
  std::function<bool(std::string_view)> filter_;
  std::function<void(std::string_view, std::string_view)> listener_;
  std::string last_tensor_;
  int64_t comparisons_ = 0;
  std::vector<CheckFailure> failures_;
  std::map<std::string, CheckTally> tallies_;
};

}  // namespace slipstream
