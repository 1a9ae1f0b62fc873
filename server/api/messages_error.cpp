// See messages_error.h.
#include "server/api/messages_error.h"

#include "server/json_text.h"

namespace slipstream::api {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408:
    case 504: return "timeout_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503:
    case 529: return "overloaded_error";
    default: return status >= 500 && status != 501 && status != 505 ? "api_error" : "invalid_request_error";
  }
}

/// The message names the field, which has no place of its own. A prompt beyond the context is said in the words by which agents
/// know that they have to shorten it.
std::string text_of(const ApiError& error, const std::string& request_id) {
  if (error.prompt_tokens >= 0)
    return "prompt is too long: " + std::to_string(error.prompt_tokens) + " tokens > " + std::to_string(error.context_tokens) +
           " maximum";
  std::string text = error_message(error, request_id);
  if (!error.error.param.empty()) text = error.error.param.substr(0, 256) + ": " + text;
  return text;
}

}  // namespace

bool is_messages_path(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  return path == "/messages" || path.starts_with("/messages/");
}

std::string messages_error_body(const ApiError& error, const std::string& request_id) {
  std::string out = R"({"type":"error","error":{"type":")";
  out += type_of(status_of(error));
  out += "\",\"message\":";
  json_text::append_string(out, text_of(error, request_id));
  out += "},\"request_id\":";
  if (request_id.empty())
    out += "null";
  else
    json_text::append_string(out, request_id);
  return out + "}";
}

HttpResponse messages_error(const ApiError& error, const std::string& request_id) {
  HttpResponse response = error_response(error, request_id);  // status and header fields are the same
  response.body = messages_error_body(error, request_id);
  return response;
}

}  // namespace slipstream::api
