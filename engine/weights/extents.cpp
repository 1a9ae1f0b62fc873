#include "engine/weights/extents.h"

#include <algorithm>

#include "engine/weights/model_folder.h"

namespace slipstream {
namespace {

/// FNV-1a, 64 bits. Two names with one hash are taken for duplicates: about 1 in 10^7 for a million tensors.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

Status ExtentTable::add(const StoredTensor& tensor) {
  if (extents_.size() >= kMaxTensors) {
    return corrupt("more than " + std::to_string(kMaxTensors) + " tensors");
  }
  uint64_t end = 0;
  if (!checked_add(tensor.begin, tensor.bytes, &end)) {
    return corrupt("tensor " + quote_name(tensor.name) + ": offset + size overflows");
  }
  extents_.push_back({tensor.begin, end, hash_name(tensor.name)});
  return Ok{};
}

Status ExtentTable::check(bool dense, uint64_t data_bytes,
                          const std::function<Status(const TensorVisitor&)>& walk) {
  const auto name_of = [&](const Extent& extent) {
    std::string name;
    const Status walked = walk([&](const StoredTensor& tensor) -> Status {
      if (tensor.begin == extent.begin && hash_name(tensor.name) == extent.name_hash) name = tensor.name;
      return Ok{};
    });
    return walked.ok() ? quote_name(name) : std::string("?");
  };

  std::sort(extents_.begin(), extents_.end(),
            [](const Extent& a, const Extent& b) { return a.name_hash < b.name_hash; });
  for (size_t i = 1; i < extents_.size(); ++i) {
    if (extents_[i].name_hash == extents_[i - 1].name_hash) {
      return corrupt("tensor " + name_of(extents_[i]) + " occurs twice");
    }
  }

  std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t covered = 0;
  const Extent* last = nullptr;
  for (const Extent& extent : extents_) {
    if (extent.end > data_bytes) {
      return corrupt("tensor " + name_of(extent) + " ends at byte " + std::to_string(extent.end) +
                     " of the data, which has " + std::to_string(data_bytes) +
                     "; the file is damaged or was not downloaded whole");
    }
    if (extent.begin < covered && extent.end > extent.begin) {
      return corrupt("tensors " + name_of(*last) + " and " + name_of(extent) + " overlap at byte " +
                     std::to_string(extent.begin) + " of the data");
    }
    if (dense && extent.begin > covered) {
      return corrupt("bytes " + std::to_string(covered) + " to " + std::to_string(extent.begin) +
                     " of the data, before tensor " + name_of(extent) + ", belong to no tensor");
    }
    if (extent.end > covered) {
      covered = extent.end;
      last = &extent;
    }
  }
  if (dense && covered != data_bytes) {
    return corrupt("the data has " + std::to_string(data_bytes) + " bytes, but the tensors end at " +
                   std::to_string(covered));
  }
  return Ok{};
}

Result<uint64_t> element_count(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (const int64_t dimension : shape) {
    if (!checked_mul(count, static_cast<uint64_t>(dimension), &count) || count > INT64_MAX) {
      return corrupt("the product of the dimensions overflows");
    }
  }
  return count;
}

}  // namespace slipstream
