// GET /v1/models and /v1/models/{id}.
#include "server/api/call.h"
#include "server/api/response_writer.h"
#include "server/api/run_generation.h"

namespace slipstream::api {
namespace {

nlohmann::ordered_json entry(const Services& services, const std::string& name) {
  nlohmann::ordered_json out;
  out["id"] = name;
  out["object"] = "model";
  out["created"] = services.model.created;
  out["owned_by"] = "slipstream";
  out["root"] = services.model.names.front();
  out["parent"] = nullptr;
  out["max_model_len"] = services.model.context_length;
  return out;
}

}  // namespace

HttpResponse models(Call& call) {
  const auto& names = call.services->model.names;
  const std::string_view path = call.http.path;
  const size_t at = path.find("/models/");
  if (at == std::string_view::npos) {
    nlohmann::ordered_json out;
    out["object"] = "list";
    out["data"] = nlohmann::ordered_json::array();
    for (const std::string& name : names) out["data"].push_back(entry(*call.services, name));
    return json_response(out);
  }
  // clients percent-encode the slash of "org/name"
  std::string id;
  const std::string_view raw = path.substr(at + 8);
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw.substr(i, 3) == "%2F" || raw.substr(i, 3) == "%2f") {
      id.push_back('/');
      i += 2;
    } else {
      id.push_back(raw[i]);
    }
  }
  for (const std::string& name : names)
    if (name == id) return json_response(entry(*call.services, name));
  Error error = not_found("the model is not served here; GET /v1/models lists what is");
  error.param = "model";
  return refuse(call, error);
}

}  // namespace slipstream::api
