// See cors.h.
#include "server/cors.h"

#include <algorithm>
#include <cctype>

namespace slipstream {
namespace {

bool allows(const std::vector<std::string>& allowed, std::string_view origin, bool* any) {
  *any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  return !origin.empty() && (*any || std::find(allowed.begin(), allowed.end(), origin) != allowed.end());
}

}  // namespace

void add_cors(const HttpRequest& request, const std::vector<std::string>& allowed, HttpResponse* response) {
  if (allowed.empty()) return;
  bool any = false;
  const std::string origin(request.header("origin"));
  const bool is_allowed = allows(allowed, origin, &any);
  if (!any) response->headers.emplace_back("Vary", "Origin");  // caches must keep origins apart
  if (!is_allowed) return;
  // keys travel in a header, not in cookies: no credentials are allowed, so "*" is safe to answer
  response->headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : origin);
  response->headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, request-id, retry-after");
}

HttpResponse preflight(const HttpRequest& request, const std::vector<std::string>& allowed) {
  HttpResponse response;
  response.status = 204;
  bool any = false;
  if (!allows(allowed, request.header("origin"), &any)) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  // the clients' own fields (x-stainless-…) are not known in advance: answer what was asked for, if it is a field list
  std::string wanted(request.header("access-control-request-headers"));
  const bool plain = !wanted.empty() && wanted.size() <= 1024 &&
                     std::all_of(wanted.begin(), wanted.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '-' || c == '_' || c == ',' || c == ' ';
                     });
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                plain ? wanted : "Authorization, Content-Type, X-Api-Key, X-Request-Id");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace slipstream
