// The one door to cpp-httplib: frames one response (status line, header fields, chunks) through a subclass of
// httplib::Server and its protected process_request. Requests reach it already parsed and bounded
// (server/request_parser), as a bare synthetic request line, so that none of the packaged release's parsing,
// decompression, percent-decoding or regular-expression routes sees a byte of the client's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace slipstream {

/// Thread-safe: one bridge serves all workers.
class HttpBridge {
 public:
  HttpBridge();
  ~HttpBridge();

  /// Writes bytes to the client in full; false when it is gone or too slow.
  using Write = std::function<bool(std::string_view)>;

  struct Reply {
    bool keep_alive = false;     // the connection may carry another request
    std::string unsent;          // a response with a plain body, header and all; empty after a stream
    std::shared_ptr<void> held;  // HttpResponse::held
  };

  /// Runs the handler. A streamed body is written as it comes, on this thread; a plain one is returned, so that no
  /// thread waits for the client that reads it.
  Reply respond(const HttpRequest& request, const HttpHandler& handler, PeerWatch& peer, const Write& write);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace slipstream
