// Sampling on the CPU without sorting the vocabulary: vector passes over whole rows, selection on the few candidates
// near the maximum. Same bits as reference/sample.cpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/sample_vector.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/sample_kernels.h"
#include "kernels/sample_law.h"

namespace slipstream {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr float kNoFloor = kExcluded;

struct Candidate {
  uint32_t key;
  int32_t token;
  float value;
  uint64_t mass;
};

// Kept by each thread between rows, so that a step allocates nothing once the vocabulary has been seen.
struct Scratch {
  std::vector<float> x;               // [vocab] modified logits
  std::vector<uint32_t> stamp;        // [vocab] last row that touched the token
  std::vector<int32_t> output_count;  // [vocab] valid where stamped
  std::vector<Candidate> candidates;
  uint32_t row = 0;

  void resize(int32_t vocab) {
    const auto size = static_cast<size_t>(vocab);
    if (x.size() >= size) return;
    x.resize(size);
    stamp.assign(size, 0);
    output_count.assign(size, 0);
    candidates.reserve(size);
    row = 0;
  }
};

Scratch& thread_scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

void restrict_and_bias(const SampleRow& row, int32_t vocab, float* x) {
  if (row.mask != nullptr)
    for (int32_t v = 0; v < vocab; ++v)
      if ((row.mask[v >> 5] >> (v & 31) & 1) == 0) x[v] = kExcluded;
  for (const LogitBias& bias : row.bias) x[bias.token] += bias.bias;
  for (const int32_t token : row.suppressed) x[token] = kExcluded;
}

// Each distinct token once: the first time that this row sees it, its count starts at 0.
void penalise(const SampleRow& row, Scratch& s) {
  if (row.repetition_penalty == 1.0f && row.frequency_penalty == 0.0f && row.presence_penalty == 0.0f) return;
  if (++s.row == 0) {  // the counter wrapped: old stamps could be mistaken for new ones
    std::fill(s.stamp.begin(), s.stamp.end(), 0u);
    s.row = 1;
  }
  float* x = s.x.data();
  const auto first_visit = [&](int32_t token) {
    if (s.stamp[token] == s.row) return false;
    s.stamp[token] = s.row;
    s.output_count[token] = 0;
    return true;
  };
  const auto repeat = [&](int32_t token) {
    x[token] = x[token] > 0 ? x[token] / row.repetition_penalty : x[token] * row.repetition_penalty;
  };
  const bool repetition = row.repetition_penalty != 1.0f;
  if (repetition)
    for (const int32_t token : row.prompt_tokens)
      if (first_visit(token)) repeat(token);
  for (const int32_t token : row.output_tokens) {
    if (first_visit(token) && repetition) repeat(token);
    ++s.output_count[token];
  }
  for (const int32_t token : row.output_tokens) {
    const int32_t count = s.output_count[token];
    if (count == 0) continue;  // already done
    s.output_count[token] = 0;
    x[token] -= row.frequency_penalty * static_cast<float>(count);
    x[token] -= row.presence_penalty;
  }
}

// All tokens at most `reach` below the maximum; reach = infinity takes every token that may be drawn.
void collect(const float* x, int32_t vocab, float max, float reach, std::vector<Candidate>* out) {
  out->clear();
  const float floor = max - reach;
  for (int32_t v = 0; v < vocab; ++v)
    if (x[v] >= floor && x[v] > kExcluded) out->push_back({law::order_key(x[v]), v, x[v], 0});
}

constexpr float kReach[] = {4.0f, 12.0f, std::numeric_limits<float>::infinity()};

// The k best; of ties at the k-th key the lower ids stay.
void keep_top_k(const float* x, int32_t vocab, float max, int32_t k, std::vector<Candidate>* c) {
  for (const float reach : kReach) {
    collect(x, vocab, max, reach, c);
    if (static_cast<int32_t>(c->size()) >= k) break;
  }
  if (static_cast<int32_t>(c->size()) <= k) return;
  std::nth_element(c->begin(), c->begin() + (k - 1), c->end(), [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.token < b.token;
  });
  c->resize(k);
}

uint64_t weigh(float max, std::vector<Candidate>* c) {
  uint64_t total = 0;
  for (Candidate& candidate : *c) total += candidate.mass = law::mass(candidate.value - max);
  return total;
}

// The largest key whose class, with everything above it, reaches `need` mass. Weighted quickselect; reorders c.
uint32_t boundary_key(std::vector<Candidate>* c, uint64_t need) {
  auto begin = c->begin(), end = c->end();
  uint64_t above = 0;  // mass of everything left of begin
  while (true) {
    const uint32_t a = begin->key, b = (begin + (end - begin) / 2)->key, z = (end - 1)->key;
    const uint32_t pivot = std::max(std::min(a, b), std::min(std::max(a, b), z));
    const auto equal = std::partition(begin, end, [&](const Candidate& e) { return e.key > pivot; });
    const auto lower = std::partition(equal, end, [&](const Candidate& e) { return e.key == pivot; });
    uint64_t greater_mass = 0, equal_mass = 0;
    for (auto e = begin; e != equal; ++e) greater_mass += e->mass;
    for (auto e = equal; e != lower; ++e) equal_mass += e->mass;
    if (equal != begin && above + greater_mass >= need) {
      end = equal;
    } else if (above + greater_mass + equal_mass >= need || lower == end) {
      return pivot;
    } else {
      above += greater_mass + equal_mass;
      begin = lower;
    }
  }
}

// Tokens that top-p keeps when top-k is off: a whole number of key classes, gathered from the neighbourhood of the
// maximum that holds enough mass.
void keep_top_p(const float* x, int32_t vocab, float max, uint64_t total, float p, std::vector<Candidate>* c) {
  const uint64_t need = law::top_p_need(p, total);
  for (const float reach : kReach) {
    collect(x, vocab, max, reach, c);
    if (weigh(max, c) >= need) break;
  }
  const uint32_t boundary = boundary_key(c, need);
  std::erase_if(*c, [&](const Candidate& e) { return e.key < boundary; });
}

int32_t draw_among(const std::vector<Candidate>& candidates, float floor, const NoiseKey& noise) {
  int32_t chosen = -1;
  float chosen_value = kExcluded;
  for (const Candidate& c : candidates) {
    if (!(c.value >= floor)) continue;
    const float value = c.value + law::token_noise(noise.seed, noise.choice, noise.position, c.token);
    if (chosen < 0 || value > chosen_value || (value == chosen_value && c.token < chosen)) {
      chosen = c.token;
      chosen_value = value;
    }
  }
  return chosen;
}

int32_t draw(const SampleRow& row, int32_t vocab, const SampleVector& vec, Scratch& s) {
  float* x = s.x.data();
  const int32_t best = vec.argmax(x, vocab);
  if (!(x[best] > kExcluded)) return -1;
  if (row.temperature < law::kGreedyTemperature || row.top_k == 1) return best;
  float max = x[best];
  if (row.temperature != 1.0f) max = vec.divide(x, vocab, row.temperature);
  if (std::isinf(max)) return best;

  const NoiseKey noise{row.seed, row.choice, row.position};
  const float floor = row.min_p > 0 ? max + law::log(row.min_p) : kNoFloor;
  if (row.top_k > 0 && row.top_k < vocab) {
    keep_top_k(x, vocab, max, row.top_k, &s.candidates);
    if (row.top_p < 1.0f) {
      const uint64_t total = weigh(max, &s.candidates);
      const uint32_t boundary = boundary_key(&s.candidates, law::top_p_need(row.top_p, total));
      std::erase_if(s.candidates, [&](const Candidate& e) { return e.key < boundary; });
    }
    return draw_among(s.candidates, floor, noise);
  }
  if (row.top_p < 1.0f) {
    keep_top_p(x, vocab, max, vec.mass_sum(x, vocab, max), row.top_p, &s.candidates);
    return draw_among(s.candidates, floor, noise);
  }
  return vec.noisy_argmax(x, vocab, floor, noise);
}

void logprobs(const float* logits, int32_t vocab, float max, const SampleVector& vec, int32_t count,
              std::vector<Candidate>* c, SampledToken* out) {
  const float log_sum = law::log_mass(vec.mass_sum(logits, vocab, max));
  out->logprob = (logits[out->token] - max) - log_sum;
  out->top_count = std::min(count, vocab);
  if (out->top_count == 0) return;
  for (const float reach : kReach) {
    collect(logits, vocab, max, reach, c);
    if (static_cast<int32_t>(c->size()) >= out->top_count) break;
  }
  out->top_count = std::min(out->top_count, static_cast<int32_t>(c->size()));
  std::partial_sort(c->begin(), c->begin() + out->top_count, c->end(), [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.token < b.token;
  });
  for (int32_t i = 0; i < out->top_count; ++i) {
    out->top_ids[i] = (*c)[i].token;
    out->top_logprobs[i] = ((*c)[i].value - max) - log_sum;
  }
}

}  // namespace

void cpu_sample_row(const float* logits, int32_t vocab, const SampleRow& row, bool vector, SampledToken* out) {
  const SampleVector& vec = vector ? best_sample_vector() : portable_sample_vector();
  *out = SampledToken{};
  float max = 0;
  if (!vec.scan(logits, vocab, &max)) {
    out->non_finite = true;
    return;
  }
  Scratch& s = thread_scratch();
  s.resize(vocab);
  std::copy(logits, logits + vocab, s.x.begin());
  restrict_and_bias(row, vocab, s.x.data());
  penalise(row, s);
  out->token = draw(row, vocab, vec, s);
  if (out->token < 0) {
    out->non_finite = true;
  } else if (row.top_logprobs >= 0) {
    logprobs(logits, vocab, max, vec, std::min(row.top_logprobs, kMaxTopLogprobs), &s.candidates, out);
  }
}

void cpu_sample(const SampleBatch& batch, ThreadPool& pool) {
  pool.parallel_for(batch.rows, [&](int64_t r) {
    cpu_sample_row(batch.logits + r * batch.vocab, batch.vocab, batch.row[r], true, &batch.out[r]);
  });
}

}  // namespace slipstream
