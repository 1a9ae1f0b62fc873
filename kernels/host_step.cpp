// See host_step.h.
#include "kernels/host_step.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "kernels/check.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

int64_t head_bytes(const KvLayer& kv) { return row_bytes(kv.dtype, kv.head_dim); }
int64_t block_bytes(const KvLayer& kv) { return int64_t{kv.kv_heads} * kv.block_tokens * head_bytes(kv); }

}  // namespace

HostStep::HostStep(Ops& device, const StepInputs& step, const KvLayer& kv) : device_kv_(kv), kv_(kv), step_(step) {
  CHECK(!step.device_owned, "a step whose rows the device alone knows cannot be checked");
  std::map<int32_t, int32_t> host_block;
  for (const SpanRows& span : step.spans) {
    const int32_t blocks = (span.context + span.rows + kv.block_tokens - 1) / kv.block_tokens;
    std::vector<int32_t> table;
    for (int32_t b = 0; b < blocks; ++b) {
      const int32_t id = span.block_tables[kv.group][b];
      const auto [at, fresh] = host_block.emplace(id, static_cast<int32_t>(ids_.size()));
      if (fresh) ids_.push_back(id);
      table.push_back(at->second);
    }
    tables_.push_back(std::move(table));
  }
  for (size_t s = 0; s < step.spans.size(); ++s) {
    columns_.emplace_back(static_cast<size_t>(std::max(step.groups, kv.group + 1)), tables_[s].data());
    spans_.push_back(step.spans[s]);
  }
  for (size_t s = 0; s < spans_.size(); ++s) {
    spans_[s].block_tables = columns_[s].data();
    spans_[s].blocks = static_cast<int32_t>(tables_[s].size());
  }
  step_.spans = spans_;
  step_.device = nullptr;
  k_.resize(ids_.size() * static_cast<size_t>(block_bytes(kv)));
  v_.resize(k_.size());
  kv_.k = k_.data();
  kv_.v = v_.data();
  kv_.blocks = static_cast<int32_t>(ids_.size());
  refresh(device);
}

void HostStep::refresh(Ops& device) {
  const auto bytes = static_cast<size_t>(block_bytes(kv_));
  for (size_t b = 0; b < ids_.size(); ++b) {
    const size_t from = static_cast<size_t>(ids_[b]) * bytes;
    device.download(k_.data() + b * bytes, static_cast<const std::byte*>(device_kv_.k) + from, bytes);
    device.download(v_.data() + b * bytes, static_cast<const std::byte*>(device_kv_.v) + from, bytes);
  }
}

std::vector<float> HostStep::token(const std::vector<std::byte>& side, int64_t block, int64_t offset) const {
  std::vector<float> out(static_cast<size_t>(kv_.kv_heads) * static_cast<size_t>(kv_.head_dim));
  for (int64_t h = 0; h < kv_.kv_heads; ++h)
    dequantize_row(kv_.dtype, side.data() + ((block * kv_.kv_heads + h) * kv_.block_tokens + offset) * head_bytes(kv_),
                   out.data() + h * kv_.head_dim, kv_.head_dim);
  return out;
}

std::vector<HostStep::Row> HostStep::written() const {
  std::vector<Row> rows;
  for (const SpanRows& span : spans_)
    for (int32_t r = 0; r < span.rows; ++r) {
      const int32_t at = span.context + r;
      const int64_t block = table(span)[at / kv_.block_tokens], offset = at % kv_.block_tokens;
      rows.push_back({span.first_row + r, token(k_, block, offset), token(v_, block, offset)});
    }
  return rows;
}

int64_t HostStep::strays(const HostStep& before) const {
  std::set<std::pair<int32_t, int32_t>> mine;  // (block, offset)
  for (const SpanRows& span : spans_)
    for (int32_t at = span.context; at < span.context + span.rows; ++at)
      mine.emplace(table(span)[at / kv_.block_tokens], at % kv_.block_tokens);
  int64_t strays = 0;
  const auto bytes = static_cast<size_t>(head_bytes(kv_));
  for (int32_t b = 0; b < kv_.blocks; ++b)
    for (int32_t t = 0; t < kv_.block_tokens; ++t) {
      if (mine.contains({b, t})) continue;
      bool same = true;
      for (int64_t h = 0; h < kv_.kv_heads; ++h) {
        const size_t at = static_cast<size_t>((int64_t{b} * kv_.kv_heads + h) * kv_.block_tokens + t) * bytes;
        same = same && std::memcmp(k_.data() + at, before.k_.data() + at, bytes) == 0 &&
               std::memcmp(v_.data() + at, before.v_.data() + at, bytes) == 0;
      }
      strays += same ? 0 : 1;
    }
  return strays;
}

}  // namespace slipstream
