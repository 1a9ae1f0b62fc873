// Numbered, named server-sent events, or none: the same course writes a stream or only keeps count of a whole answer. Knows no
// event by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace slipstream::api {

class EventWriter {
 public:
  /// Where events go from now on; null: nowhere.
  void to(std::string* out) { out_ = out; }
  bool writes() const { return out_ != nullptr; }

  /// `event` begins with its type, which is the event's name too; the sequence number is added.
  void write(nlohmann::ordered_json event);
  /// The same by hand, for what comes with every token: `members` are those between type and sequence number.
  void write_members(std::string_view type, std::string_view members);

 private:
  std::string* out_ = nullptr;
  int64_t sequence_ = 0;
};

}  // namespace slipstream::api
