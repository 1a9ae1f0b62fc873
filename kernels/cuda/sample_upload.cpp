// See SampleUpload in sample.h. A run of rows travels in one copy: laws, then the ids, biases and masks they point to.
#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cuda/sample.h"
#include "kernels/sample_law.h"

namespace slipstream::cuda {
namespace {

constexpr size_t kAlign = 16;
/// What a row may bring beside history and mask without a larger reserve: the server's bounds are 1,024 and 64.
constexpr size_t kListBytes = 16 << 10;
/// Long histories that travel together; more go in several runs.
constexpr size_t kHistoriesPerRun = 8;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

bool penalised(const SampleRow& row) {
  return row.repetition_penalty != 1.0f || row.frequency_penalty != 0.0f || row.presence_penalty != 0.0f;
}
bool same_history(const SampleRow& a, const SampleRow& b) {
  return a.prompt_tokens.data() == b.prompt_tokens.data() && a.prompt_tokens.size() == b.prompt_tokens.size() &&
         a.output_tokens.data() == b.output_tokens.data();
}
size_t list_bytes(const SampleRow& row, int32_t vocab) {
  const size_t mask = row.mask != nullptr ? (static_cast<size_t>(vocab) + 31) / 32 * sizeof(uint32_t) : 0;
  return aligned(row.bias.size_bytes()) + aligned(row.suppressed.size_bytes()) + aligned(mask);
}
size_t history_bytes(const SampleRow& row) {
  return penalised(row) ? aligned(row.prompt_tokens.size_bytes() + row.output_tokens.size_bytes()) : 0;
}
bool plain_argmax(const SampleRow& row) {
  return (row.temperature < law::kGreedyTemperature || row.top_k == 1) && !penalised(row) && row.bias.empty() &&
         row.suppressed.empty() && row.mask == nullptr && row.top_logprobs < 0;
}

}  // namespace

SampleVariant variant_of(const SampleRow* row, int32_t rows) {
  SampleVariant variant = SampleVariant::kGreedy;
  for (int32_t r = 0; r < rows; ++r) {
    if (row[r].mask != nullptr || row[r].top_logprobs >= 0) return SampleVariant::kFull;
    if (!plain_argmax(row[r])) variant = SampleVariant::kSampled;
  }
  return variant;
}

struct SampleUpload::Staging {
  Context& context;
  std::byte* host = nullptr;  // pinned, blob_bytes
  SampledToken* drawn = nullptr;  // pinned, [max_rows]
  size_t blob_bytes = 0;
  Buffer blob, scratch, out;
  int32_t max_rows = 0;
  int32_t vocab = 0;
  bool reserved = false;

  explicit Staging(Context& c) : context(c) {}
  ~Staging() { free_host(); }

  void free_host() {
    if (host != nullptr) cudaFreeHost(host);
    if (drawn != nullptr) cudaFreeHost(drawn);
    host = nullptr;
    drawn = nullptr;
  }

  void resize(int32_t rows, int32_t words, size_t bytes) {
    context.synchronize();
    free_host();
    blob.reset();
    scratch.reset();
    out.reset();
    max_rows = rows;
    vocab = words;
    blob_bytes = bytes;
    check(cudaMallocHost(reinterpret_cast<void**>(&host), blob_bytes), "cudaMallocHost");
    check(cudaMallocHost(reinterpret_cast<void**>(&drawn), static_cast<size_t>(rows) * sizeof(SampledToken)), "cudaMallocHost");
    blob = context.allocate(blob_bytes);
    scratch = context.allocate(sample_scratch_bytes(rows, words));
    out = context.allocate(static_cast<size_t>(rows) * sizeof(SampledToken));
  }

  /// Copies a span into the blob at *at; the device address of the copy.
  template <class T>
  const T* place(std::span<const T> values, size_t* at) {
    if (values.empty()) return nullptr;
    const size_t offset = *at;
    std::memcpy(host + offset, values.data(), values.size_bytes());
    *at = aligned(offset + values.size_bytes());
    return reinterpret_cast<const T*>(blob.as<std::byte>() + offset);
  }

  const int32_t* place_history(const SampleRow& row, size_t* at) {
    const size_t offset = *at, prompt = row.prompt_tokens.size_bytes(), output = row.output_tokens.size_bytes();
    if (prompt > 0) std::memcpy(host + offset, row.prompt_tokens.data(), prompt);
    if (output > 0) std::memcpy(host + offset + prompt, row.output_tokens.data(), output);
    *at = aligned(offset + prompt + output);
    return reinterpret_cast<const int32_t*>(blob.as<std::byte>() + offset);
  }

  /// The longest of the rows from `r` on that share its history.
  static const SampleRow& longest(const SampleBatch& batch, int32_t r, int32_t end) {
    const SampleRow* best = &batch.row[r];
    for (int32_t next = r + 1; next < end && same_history(batch.row[next], batch.row[r]); ++next)
      if (batch.row[next].output_tokens.size() > best->output_tokens.size()) best = &batch.row[next];
    return *best;
  }

  /// Lays out rows from `first` on; returns one past the last that fits.
  int32_t fill(const SampleBatch& batch, int32_t first) {
    const int32_t limit = std::min(batch.rows, first + max_rows);
    auto* laws = reinterpret_cast<DeviceSampleRow*>(host);
    size_t at = aligned(static_cast<size_t>(limit - first) * sizeof(DeviceSampleRow));
    const int32_t* history = nullptr;
    const SampleRow* owner = nullptr;  // whose history the last copy is
    int32_t r = first;
    for (; r < limit; ++r) {
      const SampleRow& row = batch.row[r];
      const bool shares = owner != nullptr && penalised(row) && same_history(*owner, row) &&
                          row.output_tokens.size() <= owner->output_tokens.size();
      const SampleRow& source = shares || !penalised(row) ? row : longest(batch, r, limit);
      if (at + list_bytes(row, vocab) + (shares ? 0 : history_bytes(source)) > blob_bytes) break;
      if (!shares && penalised(row)) {
        history = place_history(source, &at);
        owner = &source;
      }
      DeviceSampleRow law;
      law.temperature = row.temperature;
      law.top_p = row.top_p;
      law.min_p = row.min_p;
      law.presence_penalty = row.presence_penalty;
      law.frequency_penalty = row.frequency_penalty;
      law.repetition_penalty = row.repetition_penalty;
      law.top_k = row.top_k;
      law.choice = row.choice;
      law.seed = row.seed;
      law.position = row.position;
      law.top_logprobs = row.top_logprobs;
      law.bias = place(row.bias, &at);
      law.bias_count = static_cast<int32_t>(row.bias.size());
      law.suppressed = place(row.suppressed, &at);
      law.suppressed_count = static_cast<int32_t>(row.suppressed.size());
      if (row.mask != nullptr)
        law.mask = place(std::span<const uint32_t>(row.mask, (static_cast<size_t>(vocab) + 31) / 32), &at);
      if (penalised(row)) {
        law.history = history;
        law.prompt_tokens = static_cast<int32_t>(row.prompt_tokens.size());
        law.output_tokens = static_cast<int32_t>(row.output_tokens.size());
      }
      laws[r - first] = law;
    }
    if (r == first)
      throw DeviceError("CUDA: the sampling law of one row takes " +
                        std::to_string(list_bytes(batch.row[r], vocab) + history_bytes(batch.row[r])) +
                        " bytes; its staging holds " + std::to_string(blob_bytes) + "; raise max-model-len");
    check(cudaMemcpyAsync(blob.data(), host, at, cudaMemcpyHostToDevice, context.stream()), "upload of sampling laws");
    return r;
  }
};

SampleUpload::SampleUpload(Context& context) : staging_(std::make_unique<Staging>(context)) {}
SampleUpload::~SampleUpload() = default;

void SampleUpload::reserve(int32_t max_rows, int32_t vocab, int64_t max_history) {
  const size_t history = aligned(static_cast<size_t>(max_history) * sizeof(int32_t));
  const size_t mask = aligned((static_cast<size_t>(vocab) + 31) / 32 * sizeof(uint32_t));
  const size_t runs = std::min(kHistoriesPerRun, static_cast<size_t>(max_rows));
  staging_->resize(max_rows, vocab,
                   aligned(static_cast<size_t>(max_rows) * sizeof(DeviceSampleRow)) + runs * (history + mask + kListBytes));
  staging_->reserved = true;
}

void SampleUpload::sample(const SampleBatch& batch) {
  if (batch.rows == 0) return;
  Staging& s = *staging_;
  if (!s.reserved) {
    size_t need = aligned(static_cast<size_t>(batch.rows) * sizeof(DeviceSampleRow));
    for (int32_t r = 0; r < batch.rows; ++r) need += list_bytes(batch.row[r], batch.vocab) + history_bytes(batch.row[r]);
    if (s.blob_bytes < need || s.max_rows < batch.rows || s.vocab != batch.vocab)
      s.resize(std::max(s.max_rows, batch.rows), batch.vocab, std::max(s.blob_bytes, need));
  }
  CHECK(s.vocab == batch.vocab, "the sampler was reserved for another vocabulary");
  for (int32_t first = 0; first < batch.rows;) {
    const int32_t end = s.fill(batch, first);
    SampleArgs args;
    args.logits = batch.logits + static_cast<int64_t>(first) * batch.vocab;
    args.rows = end - first;
    args.vocab = batch.vocab;
    args.row = s.blob.as<const DeviceSampleRow>();
    args.out = s.out.as<SampledToken>();
    args.scratch = s.scratch.data();
    args.scratch_rows = s.max_rows;
    args.variant = variant_of(batch.row + first, end - first);
    cuda::sample(s.context, args);
    check(cudaMemcpyAsync(s.drawn, s.out.data(), static_cast<size_t>(end - first) * sizeof(SampledToken), cudaMemcpyDeviceToHost,
                          s.context.stream()),
          "download of draws");
    s.context.synchronize();
    std::copy_n(s.drawn, end - first, batch.out + first);
    first = end;
  }
}

}  // namespace slipstream::cuda
