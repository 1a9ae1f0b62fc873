// See event_writer.h.
#include "server/api/event_writer.h"

#include "server/api/answer_format.h"
#include "server/json_text.h"

namespace slipstream::api {

void EventWriter::write(nlohmann::ordered_json event) {
  if (!out_) return;
  const std::string type = event["type"].get<std::string>();
  event["sequence_number"] = sequence_++;
  append_named_event(out_, type, dump(event));
}

void EventWriter::write_members(std::string_view type, std::string_view members) {
  if (!out_) return;
  std::string text = "{\"type\":\"";
  text += type;
  text += "\",";
  text += members;
  text += ",\"sequence_number\":";
  json_text::append_int(text, sequence_++);
  text += "}";
  append_named_event(out_, type, text);
}

}  // namespace slipstream::api
