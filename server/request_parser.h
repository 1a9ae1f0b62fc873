// HTTP/1.x request bytes -> HttpRequest, incrementally, under the limits of config/limits.h. Owns framing: nothing is
// ever read as a request that was sent as a body. Knows no socket and no clock.
//
// Stricter than RFC 9112 where leniency has been an attack: no line folding, every line ends with CR LF, no
// Transfer-Encoding other than exactly "chunked", never together with Content-Length, no content codings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace slipstream {

class RequestParser {
 public:
  enum class State : uint8_t {
    kHeader,     // more header bytes are needed
    kHeaderDone, // stands here until accept_body(): the time to refuse by header alone
    kBody,       // more body bytes are needed
    kDone,       // take() the request
    kFailed,     // status() and reason(); the connection must be closed after the answer
  };

  /// Consumes a prefix of `bytes` and returns its length. Stops at kHeaderDone, kDone and kFailed.
  size_t feed(std::string_view bytes);
  /// Goes on from kHeaderDone.
  void accept_body();

  State state() const { return state_; }
  /// True once a byte of the current request has arrived (an idle connection has none).
  bool started() const { return started_; }
  int status() const { return status_; }
  const std::string& reason() const { return reason_; }
  const HttpRequest& request() const { return request_; }
  /// Body bytes held so far.
  size_t body_bytes() const { return request_.body.size(); }
  /// Bytes on the wire since the header ended, chunk framing included: for the rate check.
  uint64_t wire_body_bytes() const { return wire_body_bytes_; }
  bool has_body() const { return chunked_ || content_length_ > 0; }

  /// The finished request; the parser starts over.
  HttpRequest take();

 private:
  enum class Chunk : uint8_t { kSize, kData, kDataEnd, kTrailer };

  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  size_t feed_chunked(std::string_view bytes);
  bool end_of_line(std::string_view line);
  bool request_line(std::string_view line);
  bool field_line(std::string_view line);
  bool finish_header();
  bool chunk_line(std::string_view line);
  bool fail(int status, std::string reason);

  State state_ = State::kHeader;
  HttpRequest request_;
  std::string line_;             // the line being collected, without its end
  bool started_ = false;
  bool have_request_line_ = false;
  bool pending_cr_ = false;
  int64_t header_bytes_ = 0;
  int32_t header_count_ = 0;
  int32_t empty_lines_ = 0;      // before the request line
  int32_t content_length_fields_ = 0, transfer_encoding_fields_ = 0, host_fields_ = 0;
  bool chunked_ = false;
  int64_t content_length_ = 0;
  Chunk chunk_ = Chunk::kSize;
  int64_t chunk_left_ = 0;
  int64_t trailer_bytes_ = 0;
  uint64_t wire_body_bytes_ = 0;
  int status_ = 0;
  std::string reason_;
};

}  // namespace slipstream
