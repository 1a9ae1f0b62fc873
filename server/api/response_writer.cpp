// See response_writer.h.
#include "server/api/response_writer.h"

#include "server/api/messages_error.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

struct Mapping {
  int status;
  const char* type;
  const char* code;  // null: JSON null
};

Mapping mapping_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return {400, "invalid_request_error", nullptr};
    case ErrorCode::kUnsupported: return {400, "invalid_request_error", "unsupported_parameter"};
    case ErrorCode::kContextLength: return {400, "invalid_request_error", "context_length_exceeded"};
    case ErrorCode::kNotFound: return {404, "invalid_request_error", "not_found"};
    case ErrorCode::kResourceExhausted: return {429, "rate_limit_error", "queue_full"};
    case ErrorCode::kUnavailable: return {503, "unavailable_error", "unavailable"};
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: break;
  }
  return {500, "server_error", "internal_error"};
}

/// For statuses that do not follow from an ErrorCode.
const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 501:  // what RFC 9110 demands for a message of the client's that is not understood
    case 505: return "invalid_request_error";
    case 503: return "unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

int status_of(const ApiError& error) { return error.status ? error.status : mapping_of(error.error.code).status; }

std::string error_message(const ApiError& error, const std::string& request_id) {
  const int status = status_of(error);
  std::string message = error.error.message.substr(0, 2048);
  if (status >= 500 && status != 503 && !request_id.empty()) message += " (request " + request_id + ")";
  return message;
}

std::string error_body(const ApiError& error, const std::string& request_id) {
  const Mapping mapping = mapping_of(error.error.code);
  const int status = status_of(error);
  std::string out = "{\"error\":{\"message\":";
  json_text::append_string(out, error_message(error, request_id));
  out += ",\"type\":";
  json_text::append_string(out, error.status ? type_of(status) : mapping.type);
  out += ",\"param\":";
  if (error.error.param.empty())
    out += "null";
  else
    json_text::append_string(out, error.error.param.substr(0, 256));
  out += ",\"code\":";
  if (!error.code.empty())
    json_text::append_string(out, error.code);
  else if (!error.status && mapping.code)
    json_text::append_string(out, mapping.code);
  else
    out += "null";
  if (error.prompt_tokens >= 0) {
    out += ",\"n_prompt_tokens\":";
    json_text::append_int(out, error.prompt_tokens);
    out += ",\"n_ctx\":";
    json_text::append_int(out, error.context_tokens);
  }
  out += "}}";
  return out;
}

HttpResponse error_response(const ApiError& error, const std::string& request_id) {
  HttpResponse response;
  response.status = status_of(error);
  response.body = error_body(error, request_id);
  if (response.status == 429 || response.status == 503)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s > 0 ? error.retry_after_s : 1));
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError client_closed_error() {
  return {{ErrorCode::kInvalidArgument,
           "the client closed its side of the connection before the answer was complete; keep it open while waiting",
           {}},
          499, "client_closed_request"};
}

HttpResponse error_for(std::string_view path, const ApiError& error, const std::string& request_id) {
  return is_messages_path(path) ? messages_error(error, request_id) : error_response(error, request_id);
}

HttpResponse connection_error(std::string_view path, int status, const std::string& reason) {
  ErrorCode code = ErrorCode::kInvalidArgument;
  if (status == 503) code = ErrorCode::kUnavailable;
  ApiError error({code, reason, {}}, status, "");
  switch (status) {
    case 408: error.code = "request_timeout"; break;
    case 413: error.code = "body_too_large"; break;
    case 414: error.code = "uri_too_long"; break;
    case 415: error.code = "unsupported_media_type"; break;
    case 431: error.code = "header_too_large"; break;
    case 501: error.code = "unsupported_transfer_encoding"; break;
    case 503: error.code = "server_busy"; break;
    case 505: error.code = "unsupported_http_version"; break;
    default: break;
  }
  return error_for(path, error, "");
}

std::string dump(const nlohmann::ordered_json& body) {
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpResponse json_response(const nlohmann::ordered_json& body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = dump(body);
  return response;
}

}  // namespace slipstream::api
