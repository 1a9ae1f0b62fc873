// The request grammar; see request_parser.h.
#include "server/request_parser.h"

#include <algorithm>
#include <array>

#include "config/limits.h"

namespace slipstream {
namespace {

bool is_token_char(unsigned char c) {
  static constexpr auto table = [] {
    std::array<bool, 256> t{};
    for (int digit = '0'; digit <= '9'; ++digit) t[digit] = true;
    for (int letter = 'a'; letter <= 'z'; ++letter) t[letter] = t[letter - 'a' + 'A'] = true;
    for (char other : std::string_view("!#$%&'*+-.^_`|~")) t[static_cast<unsigned char>(other)] = true;
    return t;
  }();
  return table[c];
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_token_char(c); });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `body` with each item of a comma-separated list that is not empty.
template <typename Body>
void for_each_item(std::string_view list, Body body) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (const std::string_view item = trim(list.substr(0, comma)); !item.empty()) body(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

/// Whether a comma-separated list holds `token` (lower case).
bool list_has(std::string_view list, std::string_view token) {
  bool found = false;
  for_each_item(list, [&](std::string_view item) { found = found || lower(item) == token; });
  return found;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool RequestParser::fail(int status, std::string reason) {
  state_ = State::kFailed;
  status_ = status;
  reason_ = std::move(reason);
  return false;
}

size_t RequestParser::feed(std::string_view bytes) {
  size_t used = 0;
  while (used < bytes.size()) {
    if (state_ == State::kHeader)
      used += feed_header(bytes.substr(used));
    else if (state_ == State::kBody)
      used += feed_body(bytes.substr(used));
    else
      break;
  }
  return used;
}

size_t RequestParser::feed_header(std::string_view bytes) {
  started_ = true;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (++header_bytes_ > limits::kHeaderTotalBytes + (have_request_line_ ? 0 : limits::kUriBytes)) {
      fail(have_request_line_ ? 431 : 414, "the request header is longer than " +
                                               std::to_string(limits::kHeaderTotalBytes) + " bytes");
      return i + 1;
    }
    if (c == '\n') {
      // a bare LF is how two parsers come to see different requests
      if (!pending_cr_) {
        fail(400, "a header line must end with CR LF");
        return i + 1;
      }
      pending_cr_ = false;
      if (!end_of_line(line_) || state_ != State::kHeader) return i + 1;
      line_.clear();
      continue;
    }
    if (pending_cr_) {
      fail(400, "a carriage return inside a header line");
      return i + 1;
    }
    if (c == '\r') {
      pending_cr_ = true;
      continue;
    }
    line_.push_back(c);
    // method, two blanks and the version stand beside the target
    const int64_t bound = have_request_line_ ? limits::kHeaderLineBytes : limits::kUriBytes + 64;
    if (static_cast<int64_t>(line_.size()) > bound) {
      if (have_request_line_)
        fail(431, "a header field is longer than " + std::to_string(limits::kHeaderLineBytes) + " bytes");
      else
        fail(414, "the request target is longer than " + std::to_string(limits::kUriBytes) + " bytes");
      return i + 1;
    }
  }
  return bytes.size();
}

bool RequestParser::end_of_line(std::string_view line) {
  if (!have_request_line_) {
    if (line.empty()) {  // RFC 9112 2.2: tolerate an empty line before the request, but not a stream of them
      if (++empty_lines_ > 4) return fail(400, "empty lines instead of a request");
      return true;
    }
    return request_line(line);
  }
  if (line.empty()) return finish_header();
  return field_line(line);
}

bool RequestParser::request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return fail(400, "malformed request line");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || method.size() > 32) return fail(400, "malformed method");
  if (static_cast<int64_t>(target.size()) > limits::kUriBytes)
    return fail(414, "the request target is longer than " + std::to_string(limits::kUriBytes) + " bytes");
  for (const char c : target)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      return fail(400, "a byte that a request target may not hold");
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (version.size() != 8 || !version.starts_with("HTTP/") || !digit(version[5]) || version[6] != '.' || !digit(version[7]))
    return fail(400, "malformed HTTP version");
  if (version[5] != '1') return fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken");
  request_.method = std::string(method);
  request_.minor_version = version[7] == '0' ? 0 : 1;  // RFC 9110 2.5: a later minor version is read as the one we know
  request_.keep_alive = request_.minor_version == 1;
  // absolute-form is what proxies send: drop scheme and authority
  std::string_view path = target;
  if (path.starts_with("http://")) {
    const size_t slash = path.find('/', 7);
    path = slash == std::string_view::npos ? std::string_view("/") : path.substr(slash);
  }
  if (path.empty() || (path.front() != '/' && path != "*")) return fail(400, "malformed request target");
  request_.target = std::string(path);
  const size_t question = path.find('?');
  request_.path = std::string(path.substr(0, question));
  if (question != std::string_view::npos) request_.query = std::string(path.substr(question + 1));
  have_request_line_ = true;
  return true;
}

bool RequestParser::field_line(std::string_view line) {
  if (++header_count_ > limits::kHeaderCount)
    return fail(431, "more than " + std::to_string(limits::kHeaderCount) + " header fields");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return fail(400, "malformed header field");
  const std::string_view value = trim(line.substr(colon + 1));
  for (const char c : value)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f)
      return fail(400, "a control character in a header field");
  const std::string name = lower(line.substr(0, colon));

  if (name == "content-length") {
    // digits only: no sign, no list; a repeated field is refused whatever it says
    if (++content_length_fields_ > 1 || value.empty() || value.size() > 18 ||
        !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return fail(value.size() > 18 && content_length_fields_ == 1 ? 413 : 400, "malformed Content-Length");
    content_length_ = 0;
    for (const char c : value) content_length_ = content_length_ * 10 + (c - '0');
  } else if (name == "transfer-encoding") {
    if (++transfer_encoding_fields_ > 1) return fail(400, "more than one Transfer-Encoding field");
    if (lower(value) != "chunked") {
      // RFC 9112 6.1: 501 for a coding that is not understood; chunked twice, or nothing, is malformed
      bool unknown = false;
      for_each_item(value, [&](std::string_view item) { unknown = unknown || lower(item) != "chunked"; });
      return unknown ? fail(501, "Transfer-Encoding: only chunked is understood")
                     : fail(400, "malformed Transfer-Encoding");
    }
    chunked_ = true;
  } else if (name == "content-encoding") {
    if (!value.empty() && lower(value) != "identity")
      return fail(415, "compressed bodies are not accepted; send the body without Content-Encoding");
  } else if (name == "connection") {
    if (list_has(value, "close")) request_.keep_alive = false;
    if (request_.minor_version == 0 && list_has(value, "keep-alive")) request_.keep_alive = true;
  } else if (name == "expect") {
    if (lower(value) != "100-continue") return fail(417, "Expect: only 100-continue is understood");
    request_.expects_continue = request_.minor_version == 1;
  } else if (name == "host") {
    if (++host_fields_ > 1) return fail(400, "more than one Host field");
  }
  request_.headers.emplace_back(name, std::string(value));
  return true;
}

bool RequestParser::finish_header() {
  if (request_.minor_version == 1 && host_fields_ == 0) return fail(400, "the Host field is missing");
  if (chunked_ && content_length_fields_ > 0)
    return fail(400, "Content-Length together with Transfer-Encoding");
  if (chunked_ && request_.minor_version == 0) return fail(400, "Transfer-Encoding in an HTTP/1.0 request");
  if (content_length_ > limits::kBodyBytes)
    return fail(413, "the body of " + std::to_string(content_length_) + " bytes is longer than the limit of " +
                         std::to_string(limits::kBodyBytes));
  line_.clear();
  state_ = State::kHeaderDone;
  return true;
}

void RequestParser::accept_body() {
  if (state_ != State::kHeaderDone) return;
  state_ = has_body() ? State::kBody : State::kDone;
}

size_t RequestParser::feed_body(std::string_view bytes) {
  size_t used = 0;
  if (chunked_) {
    used = feed_chunked(bytes);
  } else {
    used = static_cast<size_t>(std::min<int64_t>(bytes.size(), content_length_ - request_.body.size()));
    request_.body.append(bytes.substr(0, used));
    if (static_cast<int64_t>(request_.body.size()) == content_length_) state_ = State::kDone;
  }
  wire_body_bytes_ += used;
  return used;
}

size_t RequestParser::feed_chunked(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size() && state_ == State::kBody) {
    if (chunk_ == Chunk::kData) {
      const auto take = static_cast<size_t>(std::min<int64_t>(bytes.size() - i, chunk_left_));
      request_.body.append(bytes.substr(i, take));
      chunk_left_ -= take;
      i += take;
      if (chunk_left_ == 0) chunk_ = Chunk::kDataEnd;
      continue;
    }
    const char c = bytes[i++];
    if (chunk_ == Chunk::kTrailer && ++trailer_bytes_ > limits::kHeaderLineBytes) {
      fail(431, "trailers are longer than " + std::to_string(limits::kHeaderLineBytes) + " bytes");
    } else if (c == '\n') {
      // every line end here is CR LF: a bare LF is how two parsers come to disagree
      if (!pending_cr_)
        fail(400, "malformed chunk");
      else
        chunk_line(line_);
      pending_cr_ = false;
      line_.clear();
    } else if (pending_cr_) {
      fail(400, "malformed chunk");
    } else if (c == '\r') {
      pending_cr_ = true;
    } else {
      line_.push_back(c);
      if (chunk_ != Chunk::kTrailer && line_.size() > 64) fail(400, "chunk size line is too long");
    }
  }
  return i;
}

bool RequestParser::chunk_line(std::string_view line) {
  if (chunk_ == Chunk::kDataEnd) {
    if (!line.empty()) return fail(400, "a chunk is longer than its size says");
    chunk_ = Chunk::kSize;
    return true;
  }
  if (chunk_ == Chunk::kTrailer) {
    if (line.empty()) state_ = State::kDone;  // trailers are dropped: no field of theirs may change the request
    return true;
  }
  std::string_view digits = line.substr(0, line.find(';'));
  digits = trim(digits);
  if (digits.empty() || digits.size() > 8) return fail(digits.empty() ? 400 : 413, "malformed chunk size");
  int64_t size = 0;
  for (const char c : digits) {
    const int digit = hex_digit(c);
    if (digit < 0) return fail(400, "malformed chunk size");
    size = size * 16 + digit;
  }
  if (size > limits::kBodyBytes - static_cast<int64_t>(request_.body.size()))
    return fail(413, "the body is longer than the limit of " + std::to_string(limits::kBodyBytes) + " bytes");
  chunk_left_ = size;
  chunk_ = size == 0 ? Chunk::kTrailer : Chunk::kData;
  return true;
}

HttpRequest RequestParser::take() {
  HttpRequest out = std::move(request_);
  *this = RequestParser();
  return out;
}

}  // namespace slipstream
