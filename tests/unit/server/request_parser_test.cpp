#include "server/request_parser.h"

#include <random>

#include "tests/catch.h"

using namespace slipstream;
using State = RequestParser::State;

namespace {

struct Outcome {
  State state;
  int status;
  size_t used;
  HttpRequest request;
};

/// Feeds `text` in pieces of the given sizes (cycled).
Outcome parse(const std::string& text, const std::vector<size_t>& sizes) {
  RequestParser parser;
  size_t at = 0, consumed = 0, piece = 0;
  std::string buffer;
  while (at < text.size() && parser.state() != State::kDone && parser.state() != State::kFailed) {
    const size_t count = std::min(sizes[piece++ % sizes.size()], text.size() - at);
    buffer.append(text, at, count);
    at += count;
    size_t used = 0;
    for (;;) {
      used += parser.feed(std::string_view(buffer).substr(used));
      if (parser.state() != State::kHeaderDone) break;
      parser.accept_body();
    }
    buffer.erase(0, used);
    consumed += used;
  }
  Outcome out{parser.state(), parser.status(), consumed, {}};
  if (out.state == State::kDone) out.request = parser.take();
  return out;
}

}  // namespace

TEST_CASE("where the bytes are cut does not matter") {
  const std::string texts[] = {
      "POST /v1/x?q=1 HTTP/1.1\r\nHost: h\r\nX-Thing:  padded \t\r\nContent-Length: 11\r\n\r\nhello world",
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nT: x\r\n\r\n"};
  for (const std::string& text : texts) {
    for (size_t size = 1; size <= text.size(); ++size) {
      const Outcome out = parse(text + "GET /next", {size, 3, 1});
      REQUIRE(out.state == State::kDone);
      REQUIRE(out.used == text.size());  // not a byte of what follows
      REQUIRE(out.request.body == "hello world");
    }
  }
  const Outcome first = parse(texts[0], {1000});
  CHECK(first.request.method == "POST");
  CHECK(first.request.path == "/v1/x");
  CHECK(first.request.query == "q=1");
  CHECK(first.request.header("x-thing") == "padded");
  CHECK(first.request.keep_alive);
}

TEST_CASE("keep-alive follows version and Connection") {
  const auto keep = [](const std::string& head) { return parse(head + "\r\n", {1000}).request.keep_alive; };
  CHECK(keep("GET / HTTP/1.1\r\nHost: h\r\n"));
  CHECK_FALSE(keep("GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n"));
  CHECK_FALSE(keep("GET / HTTP/1.1\r\nHost: h\r\nConnection: foo, close\r\n"));
  CHECK_FALSE(keep("GET / HTTP/1.0\r\n"));
  CHECK(keep("GET / HTTP/1.0\r\nConnection: keep-alive\r\n"));
}

TEST_CASE("random damage never leaves the states, and never passes a body as a request") {
  const std::string text =
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n";
  std::mt19937 random(3);
  int failed = 0, done = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = text;
    for (int e = 0; e < 3; ++e) damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    const Outcome out = parse(damaged, {random() % 7 + 1});
    failed += out.state == State::kFailed;
    done += out.state == State::kDone;
    if (out.state == State::kFailed) REQUIRE((out.status >= 400 && out.status < 600));
  }
  CHECK(failed > 1000);
  CHECK(done > 1000);
}

TEST_CASE("only CR LF ends a header line") {
  const std::string good = "GET /a HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n";
  REQUIRE(parse(good, {1000}).state == State::kDone);
  int lines = 0;
  for (size_t at = good.find("\r\n"); at != std::string::npos; at = good.find("\r\n", at + 2), ++lines) {
    std::string bare = good, lone = good;
    bare.erase(at, 1);
    lone.erase(at + 1, 1);
    REQUIRE(parse(bare + "GET /b HTTP/1.1\r\n", {3}).status == 400);
    REQUIRE(parse(lone + "GET /b HTTP/1.1\r\n", {3}).status == 400);
  }
  CHECK(lines == 4);
  CHECK(parse("\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", {100}).status == 400);
}

TEST_CASE("versions and transfer codings are refused as the RFCs say") {
  const auto version = [](const std::string& text) { return parse("GET / " + text + "\r\nHost: h\r\n\r\n", {100}); };
  for (const char* text : {"HTTP/2.0", "HTTP/0.9", "HTTP/3.1", "HTTP/9.9"}) CHECK(version(text).status == 505);
  for (const char* text : {"http/1.1", "HTTP/1", "HTTP/1.10", "HTTP/11", "HTTP/1.x", "HTTPS/1.1", "HTTP/ 1.1", "HTTP/1.1x"})
    CHECK(version(text).status == 400);
  CHECK(version("HTTP/1.0").request.minor_version == 0);
  CHECK(version("HTTP/1.7").request.minor_version == 1);
  CHECK(version("HTTP/1.7").request.keep_alive);

  const auto coding = [](const std::string& fields) {
    return parse("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n0\r\n\r\n", {100});
  };
  CHECK(coding("Transfer-Encoding: Chunked").state == State::kDone);
  for (const char* value : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", "chunked;q=1", "\"chunked\""})
    CHECK(coding("Transfer-Encoding: " + std::string(value)).status == 501);
  for (const char* value : {"", ",", "chunked, chunked", "chunked,", ", chunked", "chunked\x0b"})
    CHECK(coding("Transfer-Encoding: " + std::string(value)).status == 400);
  CHECK(coding("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked").status == 400);
  CHECK(coding("Transfer-Encoding : chunked").status == 400);
}

TEST_CASE("the parser starts over after take") {
  RequestParser parser;
  const std::string text = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
  size_t used = parser.feed(text);
  REQUIRE(parser.state() == State::kHeaderDone);
  parser.accept_body();
  REQUIRE(parser.state() == State::kDone);
  CHECK(parser.take().path == "/a");
  CHECK_FALSE(parser.started());
  used += parser.feed(std::string_view(text).substr(used));
  parser.accept_body();
  CHECK(parser.take().path == "/b");
  CHECK(used == text.size());
}
