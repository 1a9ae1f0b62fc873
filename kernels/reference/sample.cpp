// The sampling oracle: one row at a time, by sorting, in the order of the rules (kernels/sample.h). Scalar.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "kernels/check.h"
#include "kernels/sample_kernels.h"
#include "kernels/sample_law.h"

namespace slipstream {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t token;
  float value;
  uint32_t key;
  uint64_t mass;
};

// Higher value first, lower id first among equals.
bool better(const Candidate& a, const Candidate& b) { return a.key != b.key ? a.key > b.key : a.token < b.token; }

bool finite_row(const float* logits, int32_t vocab) {
  bool any = false;
  for (int32_t v = 0; v < vocab; ++v) {
    if (std::isnan(logits[v]) || logits[v] == std::numeric_limits<float>::infinity()) return false;
    any |= logits[v] > kExcluded;
  }
  return any;
}

void restrict_and_bias(const SampleRow& row, std::vector<float>& x) {
  const auto vocab = static_cast<int32_t>(x.size());
  if (row.mask != nullptr)
    for (int32_t v = 0; v < vocab; ++v)
      if ((row.mask[v >> 5] >> (v & 31) & 1) == 0) x[v] = kExcluded;
  for (const LogitBias& bias : row.bias) x[bias.token] += bias.bias;
  for (const int32_t token : row.suppressed) x[token] = kExcluded;
}

void penalise(const SampleRow& row, std::vector<float>& x) {
  std::map<int32_t, int32_t> output_count;
  for (const int32_t token : row.output_tokens) ++output_count[token];
  if (row.repetition_penalty != 1.0f) {
    std::set<int32_t> seen(row.prompt_tokens.begin(), row.prompt_tokens.end());
    seen.insert(row.output_tokens.begin(), row.output_tokens.end());
    for (const int32_t token : seen)
      x[token] = x[token] > 0 ? x[token] / row.repetition_penalty : x[token] * row.repetition_penalty;
  }
  for (const auto& [token, count] : output_count) {
    x[token] -= row.frequency_penalty * static_cast<float>(count);
    x[token] -= row.presence_penalty;
  }
}

void logprobs(const float* logits, int32_t vocab, int32_t count, SampledToken* out) {
  std::vector<Candidate> all;
  float max = kExcluded;
  for (int32_t v = 0; v < vocab; ++v) max = std::max(max, logits[v]);
  uint64_t sum = 0;
  for (int32_t v = 0; v < vocab; ++v) {
    sum += law::mass(logits[v] - max);
    if (logits[v] > kExcluded) all.push_back({v, logits[v], law::order_key(logits[v]), 0});
  }
  const float log_sum = law::log_mass(sum);
  out->logprob = (logits[out->token] - max) - log_sum;
  out->top_count = std::min(count, static_cast<int32_t>(all.size()));
  std::partial_sort(all.begin(), all.begin() + out->top_count, all.end(), better);
  for (int32_t i = 0; i < out->top_count; ++i) {
    out->top_ids[i] = all[i].token;
    out->top_logprobs[i] = (all[i].value - max) - log_sum;
  }
}

int32_t draw(const SampleRow& row, const std::vector<float>& x) {
  std::vector<Candidate> rest;
  for (int32_t v = 0; v < static_cast<int32_t>(x.size()); ++v)
    if (x[v] > kExcluded) rest.push_back({v, x[v], law::order_key(x[v]), 0});
  if (rest.empty()) return -1;
  std::sort(rest.begin(), rest.end(), better);
  if (row.temperature < law::kGreedyTemperature || row.top_k == 1) return rest.front().token;

  const int32_t best = rest.front().token;
  for (Candidate& c : rest) {
    c.value /= row.temperature;
    c.key = law::order_key(c.value);
  }
  const float max = rest.front().value;
  if (std::isinf(max)) return best;
  std::sort(rest.begin(), rest.end(), better);  // the division may have made neighbours equal
  if (row.top_k > 0 && row.top_k < static_cast<int32_t>(rest.size())) rest.resize(row.top_k);
  if (row.top_p < 1.0f) {
    uint64_t total = 0;
    for (Candidate& c : rest) total += c.mass = law::mass(c.value - max);
    const uint64_t need = law::top_p_need(row.top_p, total);
    uint64_t reached = 0;
    size_t kept = 0;
    while (kept < rest.size()) {
      if (reached >= need && kept > 0 && rest[kept].key != rest[kept - 1].key) break;
      reached += rest[kept].mass;
      ++kept;
    }
    rest.resize(kept);
  }
  if (row.min_p > 0) {
    const float floor = max + law::log(row.min_p);
    std::erase_if(rest, [&](const Candidate& c) { return c.value < floor; });
  }
  int32_t chosen = -1;
  float chosen_value = kExcluded;
  for (const Candidate& c : rest) {
    const float value = c.value + law::token_noise(row.seed, row.choice, row.position, c.token);
    if (value > chosen_value || (value == chosen_value && c.token < chosen)) {
      chosen = c.token;
      chosen_value = value;
    }
  }
  return chosen;
}

void sample_row(const float* logits, int32_t vocab, const SampleRow& row, SampledToken* out) {
  *out = SampledToken{};
  if (!finite_row(logits, vocab)) {
    out->non_finite = true;
    return;
  }
  std::vector<float> x(logits, logits + vocab);
  restrict_and_bias(row, x);
  penalise(row, x);
  out->token = draw(row, x);
  if (out->token < 0) {
    out->non_finite = true;
  } else if (row.top_logprobs >= 0) {
    logprobs(logits, vocab, std::min(row.top_logprobs, kMaxTopLogprobs), out);
  }
}

}  // namespace

void reference_sample(const SampleBatch& batch) {
  for (int32_t r = 0; r < batch.rows; ++r)
    sample_row(batch.logits + static_cast<int64_t>(r) * batch.vocab, batch.vocab, batch.row[r], &batch.out[r]);
}

}  // namespace slipstream
