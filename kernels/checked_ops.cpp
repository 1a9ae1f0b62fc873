// See checked_ops.h: bounds and comparisons.
#include "kernels/checked_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/check.h"
#include "kernels/formats.h"
#include "kernels/host_step.h"

namespace slipstream {
namespace {

// Relative root-mean-square bounds of one row.
constexpr double kFloatBound = 1e-4;  // the same values summed in another order
constexpr double kBf16Bound = 8e-3;   // weights or products rounded to BF16: 2^-9 each, with room for cancellation
// A device's attention rounds q, k and the probabilities to BF16, and a score of 30 by 0.06.
constexpr double kBf16AttentionBound = 3e-2;
// An element alone may be off by this many times what the row's bound allows on average; 4096 normal errors reach 4.
constexpr double kElementFactor = 8;

/// A prepared weight beside the reference's view of the same bytes.
class CheckedWeight final : public Weight {
 public:
  CheckedWeight(WeightSpec spec, std::unique_ptr<Weight> inner, std::unique_ptr<Weight> oracle)
      : Weight(std::move(spec)), inner_(std::move(inner)), oracle_(std::move(oracle)) {}
  /// As the reference's: the oracle reads the mapping at every step, so its owner must keep it.
  int64_t resident_bytes() const override { return 0; }
  std::string description() const override { return inner_->description() + ", checked"; }
  const Weight& inner() const { return *inner_; }
  const Weight& oracle() const { return *oracle_; }

 private:
  std::unique_ptr<Weight> inner_, oracle_;
};

const CheckedWeight& checked(const Weight& w) { return static_cast<const CheckedWeight&>(w); }

std::string_view format_of(const WeightPart& part) { return dtype_info(part.dtype).name; }

/// Formats that a device may turn into BF16 for products of many rows.
bool is_coded(DType dtype) { return dtype_info(dtype).block_elements > 1 || dtype == DType::kF8E4M3; }

/// What a cache rounds to: a last-bit difference before it may give the other neighbour, of a few values at most 2^-8 in 16
/// bits and 2^-3 in 8.
double cache_bound(DType dtype) { return dtype == DType::kF32 ? kFloatBound : dtype == DType::kF8E4M3 ? 0.125 : 4e-3; }

std::vector<float> floats(const std::vector<uint16_t>& bf16) {
  std::vector<float> out;
  out.reserve(bf16.size());
  for (const uint16_t v : bf16) out.push_back(bf16_to_f32(v));
  return out;
}

/// Host memory as the oracle's input or output.
Activation as_activation(std::vector<float>& values, int32_t rows, int64_t cols) {
  Activation x;
  x.max_rows = x.rows = rows;
  x.cols = cols;
  x.f32 = values.data();
  return x;
}

}  // namespace

/// Which columns of a row are compared, and what they are called.
struct CheckedOps::Where {
  std::string op, tensor, format;
  int64_t stride = 0;  // of got and want
  int64_t first = 0, count = 0;
};

std::string CheckFailure::text() const {
  char numbers[200];
  std::snprintf(numbers, sizeof numbers, ": row %d, column %lld: %.6g, reference %.6g; relative error %.3g, bound %.3g", row,
                static_cast<long long>(column), got, want, error, bound);
  return op + (tensor.empty() ? "" : " '" + tensor + "'") + (format.empty() ? "" : " (" + format + ")") +
         (after.empty() ? "" : " after '" + after + "'") + numbers;
}

CheckedOps::CheckedOps(Ops& inner, int32_t reference_threads)
    : ForwardingOps(inner), reference_(make_reference_ops(reference_threads)) {}
CheckedOps::~CheckedOps() = default;

// ---- comparisons ----

bool CheckedOps::checks(const char* op, const Weight* weight) {
  if (weight != nullptr) last_tensor_ = weight->spec().parts.back().name;
  const std::string& tensor = weight == nullptr ? last_tensor_ : weight->spec().parts.front().name;
  if (!checking_ || (filter_ && !filter_(tensor))) return false;
  if (listener_) listener_(op, tensor);
  return true;
}

CheckFailure CheckedOps::measure(const Where& where, const float* got, const float* want, int32_t r, double bound) const {
  CheckFailure out{where.op, where.tensor, where.format, where.tensor.empty() ? last_tensor_ : "", r};
  out.bound = bound;
  double error = 0, size = 0;
  const int64_t start = r * where.stride + where.first;
  for (int64_t c = start; c < start + where.count; ++c) {
    error += (double{got[c]} - want[c]) * (double{got[c]} - want[c]);
    size += double{want[c]} * want[c];
  }
  const double mean = std::sqrt(size / static_cast<double>(std::max<int64_t>(where.count, 1)));
  out.error = std::sqrt(error) / (std::sqrt(size) + 1e-30);
  double worst = -1;
  for (int64_t c = start; c < start + where.count; ++c) {
    const double off = std::fabs(double{got[c]} - want[c]);
    const double allowed = kElementFactor * bound * (mean + std::fabs(double{want[c]})) + 1e-30;
    const bool alone = !(off <= allowed);  // NaN too
    if (alone || off > worst) {
      out.column = c - start + where.first;
      out.got = got[c], out.want = want[c];
      worst = off;
    }
    if (!alone) continue;
    // what a single wrong element is, the mean over a long row may hide
    out.error = std::max(out.error, std::isnan(off) ? NAN : bound * off / allowed);
    if (std::isnan(off)) out.error = NAN;
    break;
  }
  return out;
}

void CheckedOps::record(const std::string& family, CheckFailure outcome) {
  ++comparisons_;
  CheckTally& tally = tallies_[family];
  const bool good = outcome.error <= outcome.bound;
  ++tally.cases;
  if (!good) ++tally.failed;
  const auto share = [](double error, double bound) { return error <= bound && bound <= 0 ? 0 : error / bound; };
  const bool worse = tally.cases == 1 || std::isnan(outcome.error) ||
                     (!std::isnan(tally.error) && share(outcome.error, outcome.bound) > share(tally.error, tally.bound));
  if (worse) tally.error = outcome.error, tally.bound = outcome.bound;
  if (!good && failures_.size() < kMaxFailures) failures_.push_back(std::move(outcome));
}

void CheckedOps::compare(const std::string& op, const float* got, const float* want, int32_t rows, int64_t cols, double bound) {
  const std::string family = op.substr(0, op.find(','));
  for (int32_t r = 0; r < rows; ++r) record(family, measure({op, "", "", cols, 0, cols}, got, want, r, bound));
}

void CheckedOps::compare_int8(const std::string& op, const Activation& got, const std::vector<float>& want, double bound) {
  const int64_t count = int64_t{got.rows} * got.cols;
  const std::vector<int8_t> q = host(got.q, count);
  const std::vector<float> scale = host(got.scale, count / 32);
  const std::vector<int32_t> sum = host(got.sum, count / 32);
  const int64_t blocks = got.cols / 32;
  for (int32_t r = 0; r < got.rows; ++r) {
    double size = 0;
    for (int64_t c = r * got.cols; c < (r + 1) * got.cols; ++c) size += double{want[static_cast<size_t>(c)]} * want[static_cast<size_t>(c)];
    const double slack = kElementFactor * bound * std::sqrt(size / static_cast<double>(got.cols));
    CheckFailure out{op, "", "", last_tensor_, r};
    out.bound = 1;  // half a step of the block
    for (int64_t b = r * blocks; b < (r + 1) * blocks; ++b) {
      const auto block = static_cast<size_t>(b);
      int32_t total = 0;
      for (size_t i = block * 32; i < block * 32 + 32; ++i) {
        total += q[i];
        const double value = static_cast<double>(q[i]) * scale[block];
        const double steps = std::fabs(value - want[i]) / (0.5001 * std::fabs(double{scale[block]}) + slack + 1e-30);
        if (!(steps <= out.error)) out.error = steps, out.column = static_cast<int64_t>(i) - r * got.cols, out.got = value, out.want = want[i];
      }
      if (total != sum[block]) out.error = INFINITY, out.column = b % blocks * 32, out.got = sum[block], out.want = total;
    }
    record(op, std::move(out));
  }
}

void CheckedOps::compare_activation(const std::string& op, const Activation& got, const std::vector<float>& want, double bound) {
  const int64_t count = int64_t{got.rows} * got.cols;
  if (got.f32 != nullptr && ((got.forms & kActF32) != 0 || got.bf16 == nullptr))
    compare(op, host(got.f32, count).data(), want.data(), got.rows, got.cols, bound);
  if (got.bf16 != nullptr)
    compare(op + ", bf16 form", floats(host(got.bf16, count)).data(), want.data(), got.rows, got.cols, bound + 4e-3);
  if (got.q != nullptr) compare_int8(op + ", int8 form", got, want, bound);
}

void CheckedOps::compare_product(const char* op, const Weight& w, const Activation& x, const std::vector<float>& got, double slack,
                                 const std::function<void(const Activation&, float*)>& reference) {
  // The kernel may have read any form that the weight asks for; each is compared as what it stands for.
  struct Form {
    std::vector<float> values;
    bool rounds_weights;  // coded formats may become BF16
  };
  std::vector<Form> forms;
  const uint8_t wanted = inner().activation_forms(checked(w).inner());
  const int64_t count = int64_t{x.rows} * x.cols;
  if ((wanted & kActInt8Block32) != 0 && x.q != nullptr) {
    const std::vector<int8_t> q = host(x.q, count);
    const std::vector<float> scale = host(x.scale, count / 32);
    Form form{std::vector<float>(q.size()), false};
    for (size_t i = 0; i < q.size(); ++i) form.values[i] = static_cast<float>(q[i]) * scale[i / 32];
    forms.push_back(std::move(form));
  }
  if ((wanted & kActBF16) != 0 && x.bf16 != nullptr) forms.push_back({floats(host(x.bf16, count)), true});
  if (forms.empty() || (wanted & kActF32) != 0) forms.push_back({host(x.f32, count), false});

  const std::vector<WeightPart>& parts = w.spec().parts;
  std::vector<CheckFailure> best(parts.size() * static_cast<size_t>(x.rows));
  std::vector<float> want(static_cast<size_t>(x.rows * w.rows()));
  bool all_good = false;
  for (size_t f = 0; f < forms.size() && !all_good; ++f) {
    reference(as_activation(forms[f].values, x.rows, x.cols), want.data());
    all_good = true;
    int64_t first = 0;
    for (size_t p = 0; p < parts.size(); first += parts[p++].rows)
      for (int32_t r = 0; r < x.rows; ++r) {
        const double bound = (forms[f].rounds_weights && is_coded(parts[p].dtype) ? kBf16Bound : kFloatBound) + slack;
        CheckFailure now = measure({op, parts[p].name, std::string(format_of(parts[p])), w.rows(), first, parts[p].rows},
                                   got.data(), want.data(), r, bound);
        CheckFailure& kept = best[p * static_cast<size_t>(x.rows) + static_cast<size_t>(r)];
        if (f == 0 || now.error / now.bound < kept.error / kept.bound) kept = std::move(now);
        all_good = all_good && kept.error <= kept.bound;
      }
  }
  for (CheckFailure& outcome : best) {
    const std::string family = std::string(op) + " " + outcome.format;
    record(family, std::move(outcome));
  }
}

void CheckedOps::compare_norm(const char* op, const std::vector<float>& x, int32_t rows, const float* weight, float eps,
                              const Activation& out) {
  const std::vector<float> norm = host(weight, out.cols);
  std::vector<float> want(static_cast<size_t>(rows * out.cols));
  Activation oracle = as_activation(want, rows, out.cols);
  reference_->rms_norm(x.data(), rows, norm.data(), eps, &oracle);
  compare_activation(op, out, want, kFloatBound);
}

// ---- weights ----

std::unique_ptr<Weight> CheckedOps::prepare_weight(WeightSpec spec) {
  auto oracle = reference_->prepare_weight(spec);
  auto prepared = inner().prepare_weight(spec);
  return std::make_unique<CheckedWeight>(std::move(spec), std::move(prepared), std::move(oracle));
}

uint8_t CheckedOps::activation_forms(const Weight& w) const { return inner().activation_forms(checked(w).inner()); }

Activation CheckedOps::make_activation(int32_t max_rows, int64_t cols, uint8_t forms) {
  return inner().make_activation(max_rows, cols, forms | kActF32);
}

// ---- ops ----

void CheckedOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  inner().embed(checked(table).inner(), step, scale, out);
  if (!checks("embed", &table)) return;
  CHECK(!step.device_owned, "a step whose rows the device alone knows cannot be checked");
  const WeightPart& part = table.spec().parts.front();
  std::vector<float> want(static_cast<size_t>(step.rows * table.cols()));
  StepInputs on_host = step;
  on_host.device = nullptr;
  reference_->embed(checked(table).oracle(), on_host, scale, want.data());
  const std::vector<float> got = host(out, step.rows * table.cols());
  for (int32_t r = 0; r < step.rows; ++r)
    record("embed", measure({"embed", part.name, std::string(format_of(part)), table.cols(), 0, table.cols()}, got.data(),
                            want.data(), r, 1e-6));
}

void CheckedOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  if (!checks("rms_norm", nullptr)) return inner().rms_norm(x, rows, weight, eps, out);
  const std::vector<float> input = host(x, rows * out->cols);
  inner().rms_norm(x, rows, weight, eps, out);
  compare_norm("rms_norm", input, rows, weight, eps, *out);
}

void CheckedOps::store_rows(const float* x, int32_t rows, Activation* out) {
  if (!checks("store_rows", nullptr)) return inner().store_rows(x, rows, out);
  const std::vector<float> want = host(x, rows * out->cols);
  inner().store_rows(x, rows, out);
  compare_activation("store_rows", *out, want, kFloatBound);
}

void CheckedOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  inner().linear(checked(w).inner(), x, bias, out);
  if (!checks("linear", &w) || x.rows == 0) return;
  const std::vector<float> on_host = host(bias, w.rows());
  compare_product("linear", w, x, host(out, x.rows * w.rows()), 0, [&](const Activation& input, float* want) {
    reference_->linear(checked(w).oracle(), input, on_host.empty() ? nullptr : on_host.data(), want);
  });
}

void CheckedOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  inner().row_linear_partials(checked(w).inner(), x, partials);
  if (!checks("row_linear_partials", &w)) return;
  // A device may put the whole sum into one shard, so the sum is compared.
  const int32_t shards = w.spec().local_shards;
  const int64_t each = x.rows * w.rows();
  const auto sum = [&](const std::vector<float>& all) {
    std::vector<float> total(static_cast<size_t>(each));
    for (size_t i = 0; i < all.size(); ++i) total[i % static_cast<size_t>(each)] += all[i];
    return total;
  };
  std::vector<float> all(static_cast<size_t>(shards * each));
  compare_product("row_linear_partials", w, x, sum(host(partials, shards * each)), 0, [&](const Activation& input, float* want) {
    reference_->row_linear_partials(checked(w).oracle(), input, all.data());
    std::ranges::copy(sum(all), want);
  });
}

void CheckedOps::qkv_norm_rope_cache(const QkvParams& p) {
  if (!checks("qkv_norm_rope_cache", nullptr)) return inner().qkv_norm_rope_cache(p);
  const int32_t rows = p.step->rows;
  const int64_t width = (int64_t{p.heads} + 2 * p.kv_heads) * p.head_dim, q_width = int64_t{p.heads} * p.head_dim;
  const int64_t kv_width = int64_t{p.kv_heads} * p.head_dim;
  std::vector<float> want = host(p.qkv, rows * width);
  const std::vector<float> q_norm = host(p.q_norm, p.head_dim), k_norm = host(p.k_norm, p.head_dim);
  const std::vector<float> inv_freq = host(p.rope.inv_freq, p.rope.dim / 2);
  HostStep oracle_step(inner(), *p.step, p.kv), step(inner(), *p.step, p.kv);
  QkvParams oracle = p;
  oracle.step = &oracle_step.step();
  oracle.qkv = want.data();
  oracle.q_norm = q_norm.empty() ? nullptr : q_norm.data();
  oracle.k_norm = k_norm.empty() ? nullptr : k_norm.data();
  oracle.rope.inv_freq = inv_freq.data();
  oracle.kv = oracle_step.kv();
  reference_->qkv_norm_rope_cache(oracle);
  inner().qkv_norm_rope_cache(p);
  step.refresh(inner());
  const std::vector<float> got = host(p.qkv, rows * width);
  for (int32_t r = 0; r < rows; ++r)
    record("qkv_norm_rope_cache", measure({"qkv_norm_rope_cache, q", "", "", width, 0, q_width}, got.data(), want.data(), r, kFloatBound));
  const std::vector<HostStep::Row> got_rows = step.written(), want_rows = oracle_step.written();
  const auto compare_side = [&](const char* name, const std::vector<float>& mine, const std::vector<float>& right, int32_t row) {
    CheckFailure outcome =
        measure({std::string("qkv_norm_rope_cache, ") + name, "", "", 0, 0, kv_width}, mine.data(), right.data(), 0, cache_bound(p.kv.dtype));
    outcome.row = row;
    record("qkv_norm_rope_cache", std::move(outcome));
  };
  for (size_t i = 0; i < got_rows.size(); ++i) {
    compare_side("k", got_rows[i].k, want_rows[i].k, got_rows[i].step_row);
    compare_side("v", got_rows[i].v, want_rows[i].v, got_rows[i].step_row);
  }
  CheckFailure strays{"qkv_norm_rope_cache, tokens of the cache that the step does not own", "", "", last_tensor_};
  strays.error = strays.got = static_cast<double>(step.strays(oracle_step));
  record("qkv_norm_rope_cache", std::move(strays));
}

void CheckedOps::attention(const AttentionParams& p) {
  if (!checks("attention", nullptr)) return inner().attention(p);
  const int32_t rows = p.step->rows;
  const int64_t width = int64_t{p.heads} * p.head_dim;
  const std::vector<float> q = host(p.q, (rows - 1) * p.q_stride + width);
  const HostStep on_host(inner(), *p.step, p.kv);
  std::vector<float> want(static_cast<size_t>(rows * width));
  Activation out = as_activation(want, rows, width);
  AttentionParams oracle = p;
  oracle.step = &on_host.step();
  oracle.q = q.data();
  oracle.kv = on_host.kv();
  const std::vector<uint32_t> mask = host(p.ancestor_mask, rows);
  oracle.ancestor_mask = mask.empty() ? nullptr : mask.data();
  oracle.out = &out;
  reference_->attention(oracle);
  inner().attention(p);
  compare_activation("attention", *p.out, want, inner().name() == "cuda" ? kBf16AttentionBound : kFloatBound);
}

void CheckedOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  if (!checks("swiglu", nullptr)) return inner().swiglu(gate_up, rows, out);
  const std::vector<float> input = host(gate_up, rows * 2 * out->cols);
  inner().swiglu(gate_up, rows, out);
  std::vector<float> want(static_cast<size_t>(rows * out->cols));
  Activation oracle = as_activation(want, rows, out->cols);
  reference_->swiglu(input.data(), rows, &oracle);
  compare_activation("swiglu", *out, want, kFloatBound);
}

void CheckedOps::gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  if (row_ids.empty() || !checks("gather_rows", nullptr)) return inner().gather_rows(x, row_ids, cols, out);
  std::vector<float> want;
  for (const int32_t id : row_ids) {
    const std::vector<float> row = host(x + id * cols, cols);
    want.insert(want.end(), row.begin(), row.end());
  }
  inner().gather_rows(x, row_ids, cols, out);
  compare("gather_rows", host(out, static_cast<int64_t>(want.size())).data(), want.data(), static_cast<int32_t>(row_ids.size()), cols, 0);
}

void CheckedOps::sample(const SampleBatch& batch) {
  inner().sample(batch);
  if (!checks("sample", nullptr)) return;
  const std::vector<float> logits = host(batch.logits, int64_t{batch.rows} * batch.vocab);
  std::vector<SampledToken> want(static_cast<size_t>(batch.rows));
  SampleBatch oracle = batch;
  oracle.logits = logits.data();
  oracle.out = want.data();
  reference_->sample(oracle);
  for (int32_t r = 0; r < batch.rows; ++r) {
    const SampledToken &a = batch.out[r], &b = want[static_cast<size_t>(r)];
    CheckFailure out{"sample", "", "", last_tensor_, r};
    out.got = a.token, out.want = b.token;
    out.error = std::fabs(out.got - out.want) + (a.non_finite != b.non_finite ? 1 : 0);
    record("sample", std::move(out));
  }
}

void CheckedOps::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                     const float* norm, float eps, Activation* out) {
  // The increment is compared, not the residual, which would hide it. Ranks of a group reach the collective together:
  // the oracle sees only this rank's shards, so partials are checked instead.
  const WeightSpec& spec = w.spec();
  if (spec.local_shards != spec.virtual_shards && checking_)
    return Ops::row_linear_add_norm(w, x, bias, residual, norm, eps, out);
  if (!checks("row_linear_add_norm", &w))
    return inner().row_linear_add_norm(checked(w).inner(), x, bias, residual, norm, eps, out);
  const int64_t count = x.rows * w.rows();
  const std::vector<float> before = host(residual, count), on_host = host(bias, w.rows());
  inner().row_linear_add_norm(checked(w).inner(), x, bias, residual, norm, eps, out);
  const std::vector<float> after = host(residual, count);
  std::vector<float> got(after.size());
  double largest = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    got[i] = after[i] - before[i];
    largest = std::max(largest, std::fabs(double{after[i]}));
    size += double{got[i]} * got[i];
  }
  // adding to a large residual rounds the increment away: 2^-24 of the residual per value
  const double lost = 6e-8 * largest / (std::sqrt(size / static_cast<double>(std::max<int64_t>(count, 1))) + 1e-30);
  compare_product("row_linear_add_norm", w, x, got, std::isfinite(lost) ? lost : 0, [&](const Activation& input, float* want) {
    std::fill_n(want, count, 0.0f);
    reference_->row_linear_add_norm(checked(w).oracle(), input, on_host.empty() ? nullptr : on_host.data(), want, nullptr, eps, nullptr);
  });
  if (norm != nullptr) compare_norm("row_linear_add_norm, norm", after, x.rows, norm, eps, *out);
}

void CheckedOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias,
                                 float* residual, int64_t cols, const float* norm, float eps, Activation* out) {
  if (!checks("reduce_add_norm", nullptr)) return inner().reduce_add_norm(partials, shards, rows, bias, residual, cols, norm, eps, out);
  std::vector<float> want = host(residual, rows * cols);
  const std::vector<float> input = host(partials, shards * rows * cols), on_host = host(bias, cols);
  reference_->reduce_add_norm(input.data(), shards, rows, on_host.empty() ? nullptr : on_host.data(), want.data(), cols, nullptr, eps, nullptr);
  inner().reduce_add_norm(partials, shards, rows, bias, residual, cols, norm, eps, out);
  const std::vector<float> got = host(residual, rows * cols);
  compare("reduce_add_norm", got.data(), want.data(), rows, cols, kFloatBound);
  if (norm != nullptr) compare_norm("reduce_add_norm, norm", got, rows, norm, eps, *out);
}

}  // namespace slipstream
