// See answer_format.h.
#include "server/api/answer_format.h"

namespace slipstream::api {

void append_data_event(std::string* out, std::string_view json) {
  *out += "data: ";
  *out += json;
  *out += "\n\n";
}

void append_named_event(std::string* out, std::string_view name, std::string_view json) {
  *out += "event: ";
  *out += name;
  *out += "\n";
  append_data_event(out, json);
}

}  // namespace slipstream::api
