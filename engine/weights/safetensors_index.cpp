#include "engine/weights/safetensors_index.h"

#include <nlohmann/json.hpp>

#include "engine/weights/extents.h"
#include "engine/weights/json_guard.h"
#include "engine/weights/model_folder.h"
#include "engine/weights/safetensors_header.h"

namespace slipstream {
namespace {

/// Keeps the members of the top-level "weight_map" and skips the rest.
class IndexEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  WeightMap map;
  bool has_map = false;
  Status status = Ok{};

  bool key(string_t& text) override {
    key_ = text;
    if (depth_ == 1) in_map_ = false;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 0) top_is_object_ = true;
    if (depth_ == 1 && top_is_object_ && key_ == "weight_map") {
      if (has_map) return fail("weight_map occurs twice");
      has_map = in_map_ = true;
    } else if (in_map_) {
      return not_a_file_name();
    }
    ++depth_;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (in_map_) return not_a_file_name();
    ++depth_;
    return true;
  }
  bool end_array() override { return close(); }
  bool string(string_t& text) override {
    if (!in_map_) return true;
    if (key_.empty() || key_.size() > kMaxSafetensorsNameBytes || text.empty() || text.size() > 255) {
      return fail("weight_map: " + quote_name(key_) + ": names have 1 to 255 bytes");
    }
    if (map.size() >= kMaxTensors) return fail("weight_map has more than " + std::to_string(kMaxTensors) + " tensors");
    if (!map.emplace(key_, text).second) return fail("weight_map: tensor " + quote_name(key_) + " occurs twice");
    return true;
  }
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("not valid JSON at byte " + std::to_string(position));
  }

 private:
  bool fail(std::string message) {
    status = corrupt(std::move(message));
    return false;
  }
  bool scalar() { return in_map_ ? not_a_file_name() : true; }
  bool not_a_file_name() { return fail("weight_map: the entry of tensor " + quote_name(key_) + " is not a file name"); }
  bool close() {
    if (--depth_ <= 1) in_map_ = false;
    return true;
  }

  std::string key_;
  int depth_ = 0;
  bool in_map_ = false;
  bool top_is_object_ = false;
};

}  // namespace

Result<WeightMap> read_safetensors_index(std::string_view json) {
  SLIP_RETURN_IF_ERROR(check_json_bounds(json, 16, kMaxSafetensorsStringBytes));
  IndexEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events) && events.status.ok()) {
    return corrupt("not valid JSON");
  }
  SLIP_RETURN_IF_ERROR(std::move(events.status));
  if (!events.has_map) return corrupt("there is no \"weight_map\" object");
  return std::move(events.map);
}

}  // namespace slipstream
