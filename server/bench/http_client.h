// A small HTTP/1.1 client over a plain socket: one request per connection, the answer's body handed on piece by piece
// as it comes. Used by one thread at a time; must never know OpenAI's shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace slipstream::bench {

struct Url {
  std::string host;
  std::string port = "80";
  std::string path;  // without a slash at the end; may be empty
};

/// Only http://; https is refused with the way out.
Result<Url> parse_url(const std::string& text);

struct HttpRequest {
  std::string method = "GET";
  std::string path;
  std::string body;     // JSON when not empty
  std::string api_key;  // "": none
};

/// Sends `request` and hands the body's bytes to `on_body` as they arrive; the body of an answer other than 2xx too.
/// Returns the status code. Errors: kIo for a connection that fails, ends early, or passes `timeout_ms` in all.
Result<int> send_request(const Url& url, const HttpRequest& request, int64_t timeout_ms,
                         const std::function<void(std::string_view)>& on_body);

}  // namespace slipstream::bench
