#include "engine/weights/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "engine/weights/extents.h"
#include "engine/weights/gguf_types.h"
#include "engine/weights/model_folder.h"

namespace slipstream {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place on little-endian machines");

enum ValueType : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kValueTypes
};
constexpr uint64_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // least size in the file
// key length + key + type + value, and name length + name + rank + one dimension + type + offset.
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

/// A position in the file. Reading past the end makes it fail for good; values are then zero.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    if (remaining() < sizeof(T)) {
      failed_ = true;
      at_ = bytes_.size();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string_view take_bytes(uint64_t count) {
    if (count > remaining()) {
      failed_ = true;
      at_ = bytes_.size();
      return {};
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return text;
  }
  uint64_t at() const { return at_; }
  uint64_t remaining() const { return bytes_.size() - at_; }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  bool failed_ = false;
};

Error truncated(const std::string& where, const Cursor& cursor) {
  return corrupt(where + ": the file ends at byte " + std::to_string(cursor.at()) +
                 "; it is damaged or was not downloaded whole");
}

Result<std::string_view> take_string(Cursor& cursor, uint64_t max_bytes, const std::string& what) {
  const auto length = cursor.take<uint64_t>();
  if (cursor.failed()) return truncated(what, cursor);
  if (length > max_bytes) {
    return corrupt(what + ": length " + std::to_string(length) + " is over the limit of " + std::to_string(max_bytes));
  }
  if (length > cursor.remaining()) {
    return corrupt(what + ": length " + std::to_string(length) + " runs past the end of the file");
  }
  return cursor.take_bytes(length);
}

/// One pass over a header. With `keep` null it only checks.
class HeaderWalk {
 public:
  HeaderWalk(std::span<const std::byte> file, GgufHeader* keep) : cursor_(file), keep_(keep) {}

  Status start() {
    if (cursor_.take_bytes(4) != "GGUF") return corrupt("not a GGUF file: it does not start with \"GGUF\"");
    const auto version = cursor_.take<uint32_t>();
    tensor_count_ = cursor_.take<uint64_t>();
    key_count_ = cursor_.take<uint64_t>();
    if (cursor_.failed()) return truncated("header", cursor_);
    if ((version & 0xffffu) == 0 && version != 0) {
      return unsupported("this GGUF is big-endian; convert it with gguf-convert-endian of the gguf Python package");
    }
    if (version != 2 && version != 3) {
      return unsupported("GGUF version " + std::to_string(version) + " is not served, only 2 and 3; convert the model "
                         "again with a newer llama.cpp");
    }
    if (keep_ != nullptr) keep_->version = version;
    SLIP_RETURN_IF_ERROR(check_count("metadata keys", key_count_, kMaxGgufKeys, kLeastKeyBytes));
    return check_count("tensors", tensor_count_, kMaxTensors, kLeastTensorBytes);
  }

  Status metadata() {
    std::deque<std::string_view> keys;
    uint64_t elements = 0;
    for (uint64_t i = 0; i < key_count_; ++i) {
      const std::string nth = "metadata key " + std::to_string(i);
      SLIP_TRY(const std::string_view key, take_string(cursor_, kMaxGgufKeyBytes, nth));
      if (key.empty()) return corrupt(nth + " is empty");
      keys.push_back(key);
      SLIP_RETURN_IF_ERROR(value(key, &elements));
    }
    std::sort(keys.begin(), keys.end());
    for (size_t i = 1; i < keys.size(); ++i) {
      if (keys[i] == keys[i - 1]) return corrupt("metadata key " + quote_name(keys[i]) + " occurs twice");
    }
    return Ok{};
  }

  Status tensors(const TensorVisitor& visit) {
    StoredTensor tensor;
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      SLIP_RETURN_IF_ERROR(read_tensor("tensor " + std::to_string(i), &tensor));
      SLIP_RETURN_IF_ERROR(visit(tensor));
    }
    return Ok{};
  }

  /// Where the data section starts; the file may end before it when there are no tensors.
  Result<uint64_t> data_start() const {
    uint64_t start = 0;
    if (!checked_add(cursor_.at(), alignment_ - 1, &start)) return corrupt("the header's size overflows");
    return start / alignment_ * alignment_;
  }
  const Cursor& cursor() const { return cursor_; }

 private:
  Status check_count(const char* what, uint64_t count, uint64_t limit, uint64_t least_bytes) const {
    if (count > limit) {
      return corrupt(std::to_string(count) + " " + what + " are over the limit of " + std::to_string(limit));
    }
    if (count > cursor_.remaining() / least_bytes) {
      return corrupt(std::to_string(count) + " " + what + " do not fit into the file");
    }
    return Ok{};
  }

  Status value(std::string_view key, uint64_t* elements) {
    const std::string what = "metadata key " + quote_name(key);
    const auto type = cursor_.take<uint32_t>();
    if (type >= kValueTypes && !cursor_.failed()) {
      return corrupt(what + ": value type " + std::to_string(type) + " is unknown");
    }
    if (type == kArray && !cursor_.failed()) return array(key, what, elements);
    SLIP_TRY(MetaValue scalar, take_scalar(type, what));
    if (key == "general.alignment") {
      const auto* number = std::get_if<uint64_t>(&scalar);
      if (number == nullptr || !std::has_single_bit(*number) || *number < 8 || *number > kMaxGgufAlignment) {
        return corrupt("general.alignment must be a power of two from 8 to " + std::to_string(kMaxGgufAlignment));
      }
      alignment_ = *number;
    }
    if (keep_ != nullptr) keep_->metadata.insert_or_assign(std::string(key), std::move(scalar));
    return Ok{};
  }

  Result<MetaValue> take_scalar(uint32_t type, const std::string& what) {
    MetaValue out = false;
    switch (type) {
      case kU8: out = static_cast<uint64_t>(cursor_.take<uint8_t>()); break;
      case kI8: out = static_cast<int64_t>(cursor_.take<int8_t>()); break;
      case kU16: out = static_cast<uint64_t>(cursor_.take<uint16_t>()); break;
      case kI16: out = static_cast<int64_t>(cursor_.take<int16_t>()); break;
      case kU32: out = static_cast<uint64_t>(cursor_.take<uint32_t>()); break;
      case kI32: out = static_cast<int64_t>(cursor_.take<int32_t>()); break;
      case kU64: out = cursor_.take<uint64_t>(); break;
      case kI64: out = cursor_.take<int64_t>(); break;
      case kF32: out = static_cast<double>(cursor_.take<float>()); break;
      case kF64: out = cursor_.take<double>(); break;
      case kBool: {
        const auto byte = cursor_.take<uint8_t>();
        if (byte > 1) return corrupt(what + ": " + std::to_string(byte) + " is not a bool");
        out = byte == 1;
        break;
      }
      case kString: {
        SLIP_TRY(const std::string_view text, take_string(cursor_, kMaxGgufStringBytes, what));
        if (keep_ != nullptr) out = std::string(text);
        break;
      }
      default: break;
    }
    if (cursor_.failed()) return truncated(what, cursor_);
    return out;
  }

  Status array(std::string_view key, const std::string& what, uint64_t* elements) {
    const auto type = cursor_.take<uint32_t>();
    const auto count = cursor_.take<uint64_t>();
    if (cursor_.failed()) return truncated(what, cursor_);
    if (type == kArray) return unsupported(what + ": nested arrays are not served");
    if (type >= kValueTypes) return corrupt(what + ": element type " + std::to_string(type) + " is unknown");
    if (count > cursor_.remaining() / kValueBytes[type]) {
      return corrupt(what + ": " + std::to_string(count) + " elements run past the end of the file");
    }
    *elements += count;  // both bounded by the file's size: no overflow
    if (*elements > kMaxGgufArrayElements) {
      return corrupt(what + ": the arrays have more than " + std::to_string(kMaxGgufArrayElements) + " elements");
    }
    MetaValue out;
    Status taken = Ok{};
    switch (type) {
      case kString: taken = take_strings(count, what, &out); break;
      case kU8: take_numbers<uint8_t, int64_t>(count, &out); break;
      case kI8: take_numbers<int8_t, int64_t>(count, &out); break;
      case kU16: take_numbers<uint16_t, int64_t>(count, &out); break;
      case kI16: take_numbers<int16_t, int64_t>(count, &out); break;
      case kU32: take_numbers<uint32_t, int64_t>(count, &out); break;
      case kI32: take_numbers<int32_t, int64_t>(count, &out); break;
      case kI64: take_numbers<int64_t, int64_t>(count, &out); break;
      case kF32: take_numbers<float, double>(count, &out); break;
      case kF64: take_numbers<double, double>(count, &out); break;
      case kBool: taken = take_bounded<uint8_t>(count, 1, what, &out); break;
      case kU64: taken = take_bounded<uint64_t>(count, INT64_MAX, what, &out); break;
      default: break;
    }
    if (!taken.ok()) return taken;
    if (keep_ != nullptr) keep_->metadata.insert_or_assign(std::string(key), std::move(out));
    return Ok{};
  }

  /// `count` elements, which are known to fit.
  template <typename Stored, typename Kept>
  void take_numbers(uint64_t count, MetaValue* out) {
    const std::string_view bytes = cursor_.take_bytes(count * sizeof(Stored));
    if (keep_ == nullptr) return;
    std::vector<Kept> kept(count);
    for (uint64_t i = 0; i < count; ++i) {
      Stored stored;
      std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
      kept[i] = static_cast<Kept>(stored);
    }
    *out = std::move(kept);
  }

  template <typename Stored>
  Status take_bounded(uint64_t count, uint64_t largest, const std::string& what, MetaValue* out) {
    std::vector<int64_t> kept(keep_ != nullptr ? count : 0);
    for (uint64_t i = 0; i < count; ++i) {
      const auto stored = cursor_.take<Stored>();
      if (stored > largest) {
        return corrupt(what + ": element " + std::to_string(i) + " is " + std::to_string(stored) + ", over " +
                       std::to_string(largest));
      }
      if (keep_ != nullptr) kept[i] = static_cast<int64_t>(stored);
    }
    *out = std::move(kept);
    return Ok{};
  }

  Status take_strings(uint64_t count, const std::string& what, MetaValue* out) {
    std::vector<std::string> kept;
    if (keep_ != nullptr) kept.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      SLIP_TRY(const std::string_view text, take_string(cursor_, kMaxGgufStringBytes, what));
      if (keep_ != nullptr) kept.emplace_back(text);
    }
    *out = std::move(kept);
    return Ok{};
  }

  Status read_tensor(const std::string& nth, StoredTensor* tensor) {
    SLIP_TRY(const std::string_view name, take_string(cursor_, kMaxGgufTensorNameBytes, nth + ": name"));
    if (name.empty()) return corrupt(nth + " has no name");
    tensor->name.assign(name);
    const std::string what = "tensor " + quote_name(name);
    const auto rank = cursor_.take<uint32_t>();
    if (cursor_.failed()) return truncated(what, cursor_);
    if (rank < 1 || rank > 4) return corrupt(what + ": " + std::to_string(rank) + " dimensions, not 1 to 4");
    tensor->shape.assign(rank, 0);
    for (uint32_t i = 0; i < rank; ++i) {
      const auto dimension = cursor_.take<uint64_t>();
      if (cursor_.failed()) return truncated(what, cursor_);
      if (dimension == 0 || dimension > INT64_MAX) {
        return corrupt(what + ": dimension " + std::to_string(i) + " is " + std::to_string(dimension));
      }
      tensor->shape[rank - 1 - i] = static_cast<int64_t>(dimension);  // GGUF's first dimension is the fastest
    }
    const auto type = cursor_.take<uint32_t>();
    tensor->begin = cursor_.take<uint64_t>();
    if (cursor_.failed()) return truncated(what, cursor_);
    auto dtype = gguf_dtype(type);
    if (!dtype.ok()) return Error{dtype.error().code, what + ": " + dtype.error().message, {}};
    tensor->dtype = *dtype;
    return measure(what, tensor);
  }

  /// bytes = elements / block * block bytes, all checked.
  Status measure(const std::string& what, StoredTensor* tensor) const {
    const DTypeInfo& info = dtype_info(tensor->dtype);
    const auto elements = element_count(tensor->shape);
    if (!elements.ok()) return corrupt(what + ": " + elements.error().message);
    if (tensor->shape.back() % info.block_elements != 0) {
      return corrupt(what + ": rows of " + std::to_string(tensor->shape.back()) + " elements do not hold whole " +
                     std::string(info.name) + " blocks of " + std::to_string(info.block_elements));
    }
    const uint64_t blocks = *elements / static_cast<uint64_t>(info.block_elements);
    if (!checked_mul(blocks, static_cast<uint64_t>(info.block_bytes), &tensor->bytes)) {
      return corrupt(what + ": its size overflows");
    }
    if (tensor->begin % alignment_ != 0) {
      return corrupt(what + ": offset " + std::to_string(tensor->begin) + " is not a multiple of the alignment " +
                     std::to_string(alignment_));
    }
    return Ok{};
  }

  Cursor cursor_;
  GgufHeader* keep_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t alignment_ = 32;
};

/// Metadata (kept when asked), then each tensor. Returns the start of the data section.
Result<uint64_t> walk(std::span<const std::byte> file, GgufHeader* keep, const TensorVisitor& visit) {
  HeaderWalk header(file, keep);
  SLIP_RETURN_IF_ERROR(header.start());
  SLIP_RETURN_IF_ERROR(header.metadata());
  SLIP_RETURN_IF_ERROR(header.tensors(visit));
  return header.data_start();
}

}  // namespace

Result<GgufHeader> read_gguf_header(std::span<const std::byte> file) {
  ExtentTable extents;
  SLIP_TRY(const uint64_t data_start,
           walk(file, nullptr, [&](const StoredTensor& tensor) { return extents.add(tensor); }));
  const uint64_t data_bytes = data_start <= file.size() ? file.size() - data_start : 0;
  const auto walk_again = [&](const TensorVisitor& visit) -> Status {
    SLIP_RETURN_IF_ERROR(walk(file, nullptr, visit));
    return Ok{};
  };
  SLIP_RETURN_IF_ERROR(extents.check(false, data_bytes, walk_again));

  GgufHeader header;
  const auto keep = [&](const StoredTensor& tensor) -> Status {
    header.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, file.data() + data_start + tensor.begin, tensor.bytes, {}});
    return Ok{};
  };
  SLIP_RETURN_IF_ERROR(walk(file, &header, keep));
  return header;
}

}  // namespace slipstream
