// Cross-origin answers for the origins the operator allows; nothing without any.
#pragma once

#include <string>
#include <vector>

#include "server/http_message.h"

namespace slipstream {

/// Adds Access-Control-* fields for an allowed Origin. `allowed` may hold "*".
void add_cors(const HttpRequest& request, const std::vector<std::string>& allowed, HttpResponse* response);
/// The answer to an OPTIONS request.
HttpResponse preflight(const HttpRequest& request, const std::vector<std::string>& allowed);

}  // namespace slipstream
