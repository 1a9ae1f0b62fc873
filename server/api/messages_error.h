// Errors as the Anthropic Messages API spells them. Every failure of a request to its routes looks like this, whoever refuses:
// the endpoint, the edge, the keys or the connection layer.
#pragma once

#include <string>
#include <string_view>

#include "server/api/response_writer.h"

namespace slipstream::api {

bool is_messages_path(std::string_view path);

std::string messages_error_body(const ApiError& error, const std::string& request_id);
HttpResponse messages_error(const ApiError& error, const std::string& request_id);

}  // namespace slipstream::api
