// Errors as OpenAI's body and code, in one function; and the JSON answers that need a library. Never echoes request
// text beyond what an Error carries.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/result.h"
#include "server/http_message.h"

namespace slipstream::api {

/// An Error plus what only some answers carry.
struct ApiError {
  Error error;
  std::string code;             // "": from error.code
  int64_t prompt_tokens = -1;   // context_length_exceeded: both numbers as fields too
  int64_t context_tokens = -1;
  int retry_after_s = 0;        // 0: the default of the status
  int status = 0;               // 0: from error.code

  ApiError(Error e) : error(std::move(e)) {}  // NOLINT: implicit on purpose
  ApiError(Error e, int http_status, std::string code_text)
      : error(std::move(e)), code(std::move(code_text)), status(http_status) {}
};

/// The mapping of design.md 12: kind of failure -> status, type, code.
HttpResponse error_response(const ApiError& error, const std::string& request_id);
int status_of(const ApiError& error);
/// What it says: bounded, and with the request's id where the server is at fault.
std::string error_message(const ApiError& error, const std::string& request_id);
/// {"error": {...}} alone, for an event inside a stream.
std::string error_body(const ApiError& error, const std::string& request_id);

/// For a client that has closed its sending side: that ends a generation, but it may still be reading.
ApiError client_closed_error();

/// The error in the shape of the API that `path` belongs to.
HttpResponse error_for(std::string_view path, const ApiError& error, const std::string& request_id);
/// An answer of the connection layer (no request id). `path`: as far as it is known.
HttpResponse connection_error(std::string_view path, int status, const std::string& reason);

HttpResponse json_response(const nlohmann::ordered_json& body, int status = 200);
/// dump() with U+FFFD for malformed UTF-8; it cannot throw.
std::string dump(const nlohmann::ordered_json& body);

}  // namespace slipstream::api
