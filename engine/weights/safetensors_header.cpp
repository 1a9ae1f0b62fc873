#include "engine/weights/safetensors_header.h"

#include <cstring>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/weights/extents.h"
#include "engine/weights/json_guard.h"
#include "engine/weights/model_folder.h"

namespace slipstream {
namespace {

struct SafetensorsDType {
  std::string_view name;
  uint64_t bits;
  bool served;
  DType dtype;
};
constexpr DType kNone = DType::kF32;  // not read unless served
constexpr SafetensorsDType kDTypes[] = {
    {"F32", 32, true, DType::kF32},      {"F16", 16, true, DType::kF16},     {"BF16", 16, true, DType::kBF16},
    {"I32", 32, true, DType::kI32},      {"BOOL", 8, false, kNone},          {"F4", 4, false, kNone},
    {"F6_E2M3", 6, false, kNone},        {"F6_E3M2", 6, false, kNone},       {"U8", 8, false, kNone},
    {"I8", 8, false, kNone},             {"F8_E5M2", 8, false, kNone},       {"F8_E4M3", 8, true, DType::kF8E4M3},
    {"F8_E8M0", 8, false, kNone},        {"F8_E4M3FNUZ", 8, false, kNone},   {"F8_E5M2FNUZ", 8, false, kNone},
    {"I16", 16, false, kNone},           {"U16", 16, false, kNone},          {"U32", 32, false, kNone},
    {"C64", 64, false, kNone},           {"F64", 64, false, kNone},          {"I64", 64, false, kNone},
    {"U64", 64, false, kNone},
};

const SafetensorsDType* find_dtype(std::string_view name) {
  for (const auto& dtype : kDTypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

/// Follows the events of one header and calls `visit` for each tensor. Returning false stops nlohmann's parser; the
/// reason is then in `status`.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const TensorVisitor& visit) : visit_(visit) {}

  Status status = Ok{};

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) return enter(Place::kHeader);
    if (place_ == Place::kHeader) {
      if (key_ == "__metadata__") {
        if (has_metadata_) return fail("__metadata__ occurs twice");
        has_metadata_ = true;
        return enter(Place::kMetadata);
      }
      return begin_tensor();
    }
    return unexpected("an object");
  }
  bool end_object() override {
    switch (place_) {
      case Place::kHeader: return enter(Place::kEnd);
      case Place::kMetadata: return enter(Place::kHeader);
      default: return end_tensor();
    }
  }
  bool key(string_t& text) override {
    key_ = text;
    if (place_ == Place::kHeader) return true;
    if (place_ == Place::kMetadata) return true;
    if (text == "dtype") return once(&has_dtype_);
    if (text == "shape") return once(&has_shape_);
    if (text == "data_offsets") return once(&has_offsets_);
    return fail(tensor_text() + ": key " + quote_name(text) + " is unknown; known are dtype, shape and data_offsets");
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && key_ == "shape") return enter(Place::kShape);
    if (place_ == Place::kTensor && key_ == "data_offsets") return enter(Place::kOffsets);
    return unexpected("an array");
  }
  bool end_array() override {
    if (place_ == Place::kOffsets && offset_count_ != 2) return fail(tensor_text() + ": data_offsets needs 2 numbers");
    return enter(Place::kTensor);
  }
  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected("a string");
    dtype_ = find_dtype(text);
    if (dtype_ == nullptr) return fail(tensor_text() + ": dtype " + quote_name(text) + " is unknown");
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (tensor_.shape.size() == kMaxSafetensorsRank) {
        return fail(tensor_text() + ": more than " + std::to_string(kMaxSafetensorsRank) + " dimensions");
      }
      if (value > INT64_MAX) return fail(tensor_text() + ": dimension " + std::to_string(value) + " is out of range");
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offset_count_ == 2) return fail(tensor_text() + ": data_offsets needs 2 numbers");
      offsets_[offset_count_++] = value;
      return true;
    }
    return unexpected("a number");
  }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction or too large a number"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("the header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place : uint8_t { kStart, kHeader, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool fail(std::string message) {
    status = corrupt(std::move(message));
    return false;
  }
  bool unexpected(const char* what) {
    const std::string where = place_ == Place::kStart ? std::string("the header") : "key " + quote_name(key_);
    const bool in_tensor = place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets;
    return fail((in_tensor ? tensor_text() + ": " : std::string()) + where + " must not be " + what);
  }
  bool once(bool* seen) {
    if (*seen) return fail(tensor_text() + ": key " + quote_name(key_) + " occurs twice");
    *seen = true;
    return true;
  }
  std::string tensor_text() const { return "tensor " + quote_name(tensor_.name); }

  bool begin_tensor() {
    if (key_.empty() || key_.size() > kMaxSafetensorsNameBytes) {
      return fail("tensor " + quote_name(key_) + ": a name has 1 to " + std::to_string(kMaxSafetensorsNameBytes) + " bytes");
    }
    tensor_.name = key_;
    tensor_.shape.clear();
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offset_count_ = 0;
    return enter(Place::kTensor);
  }

  bool end_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return fail(tensor_text() + ": dtype, shape and data_offsets are all needed");
    }
    if (offsets_[1] < offsets_[0]) return fail(tensor_text() + ": data_offsets run backwards");
    const auto elements = element_count(tensor_.shape);
    if (!elements.ok()) return fail(tensor_text() + ": " + elements.error().message);
    uint64_t bits = 0;
    if (!checked_mul(*elements, dtype_->bits, &bits)) return fail(tensor_text() + ": its size overflows");
    tensor_.begin = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    if (bits % 8 != 0) {
      return fail(tensor_text() + ": its shape in " + std::string(dtype_->name) + " does not fill whole bytes");
    }
    if (bits / 8 != tensor_.bytes) {
      return fail(tensor_text() + ": its shape in " + std::string(dtype_->name) + " needs " +
                  std::to_string(bits / 8) + " bytes, but data_offsets span " + std::to_string(tensor_.bytes));
    }
    tensor_.dtype = dtype_->dtype;
    tensor_.unserved = dtype_->served ? std::string_view() : dtype_->name;
    Status visited = visit_(tensor_);
    if (!visited.ok()) return fail(visited.error().message);
    return enter(Place::kHeader);
  }

  const TensorVisitor& visit_;
  Place place_ = Place::kStart;
  std::string key_;
  StoredTensor tensor_;
  const SafetensorsDType* dtype_ = nullptr;
  uint64_t offsets_[2] = {0, 0};
  int offset_count_ = 0;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

Status walk(std::string_view json, const TensorVisitor& visit) {
  HeaderEvents events(visit);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events) && events.status.ok()) {
    return corrupt("the header is not valid JSON");
  }
  return std::move(events.status);
}

}  // namespace

Result<std::vector<TensorEntry>> read_safetensors_header(std::span<const std::byte> file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) {
    return corrupt("not a safetensors file: it has " + std::to_string(file.size()) + " bytes, fewer than 8");
  }
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return corrupt("a header of " + std::to_string(header_bytes) + " bytes is over the limit of " +
                   std::to_string(kMaxSafetensorsHeaderBytes) + "; not a safetensors file, or a damaged one");
  }
  if (header_bytes > file.size() - sizeof header_bytes) {
    return corrupt("the header has " + std::to_string(header_bytes) + " bytes, but the file only " +
                   std::to_string(file.size()) + "; it is damaged or was not downloaded whole");
  }
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + sizeof header_bytes, header_bytes);
  if (json.empty() || json.front() != '{') return corrupt("not a safetensors file: the header does not start with {");
  SLIP_RETURN_IF_ERROR(check_json_bounds(json, 3, kMaxSafetensorsStringBytes));

  const std::span<const std::byte> data = file.subspan(sizeof header_bytes + header_bytes);
  ExtentTable extents;
  SLIP_RETURN_IF_ERROR(walk(json, [&](const StoredTensor& tensor) { return extents.add(tensor); }));
  SLIP_RETURN_IF_ERROR(
      extents.check(true, data.size(), [&](const TensorVisitor& visit) { return walk(json, visit); }));

  std::vector<TensorEntry> tensors;
  SLIP_RETURN_IF_ERROR(walk(json, [&](const StoredTensor& tensor) -> Status {
    tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, data.data() + tensor.begin, tensor.bytes, tensor.unserved});
    return Ok{};
  }));
  return tensors;
}

}  // namespace slipstream
