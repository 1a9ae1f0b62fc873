// The one door to cpp-httplib: writes one response (status line, header fields, chunk framing) through a subclass of
// httplib::Server and its protected process_request. Requests reach it already parsed and bounded
// (server/request_parser), as a bare synthetic request line, so that none of the packaged release's parsing,
// decompression, percent-decoding or regular-expression routes sees a byte of the client's.
#pragma once

#include <functional>
#include <memory>
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

  /// Runs the handler and writes its response. True when the connection may carry another request.
  bool respond(const HttpRequest& request, const HttpHandler& handler, PeerWatch& peer, const Write& write);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace slipstream
