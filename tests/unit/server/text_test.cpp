#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/base/utf8.h"
#include "server/api/response_writer.h"
#include "server/json_guard.h"
#include "server/json_text.h"
#include "server/sha256.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("any bytes become a valid JSON string that reads back as the repaired text") {
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (size_t i = random() % 12; i > 0; --i) bytes.push_back(static_cast<char>(round % 2 ? random() % 256 : random() % 128));
    const std::string literal = json_text::quoted(bytes);
    REQUIRE(is_valid_utf8(literal));
    const auto parsed = nlohmann::json::parse(literal, nullptr, false);
    REQUIRE(parsed.is_string());
    REQUIRE(parsed.get<std::string>() == json_text::replace_invalid_utf8(bytes));
    if (is_valid_utf8(bytes)) REQUIRE(parsed.get<std::string>() == bytes);
  }
}

TEST_CASE("numbers read back") {
  for (const float value : {0.0f, -0.5f, 1e-30f, 3.4e38f, -123.456f}) {
    std::string out;
    json_text::append_float(out, value);
    CHECK(static_cast<float>(nlohmann::json::parse(out).get<double>()) == value);
  }
  std::string out;
  json_text::append_float(out, NAN);
  json_text::append_bytes(out, "\xff" "a");
  json_text::append_int(out, INT64_MIN);
  CHECK(out == "null[255,97]-9223372036854775808");
}

TEST_CASE("SHA-256 of the standard's examples") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(std::string(1'000'000, 'a'))) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(equal_constant_time(sha256("a"), sha256("a")));
  CHECK_FALSE(equal_constant_time(sha256("a"), sha256("b")));
}

TEST_CASE("each kind of failure has its status, type and code") {
  struct Case {
    ErrorCode code;
    int status;
    const char* type;
    nlohmann::json json_code;
  };
  for (const Case& c : {Case{ErrorCode::kInvalidArgument, 400, "invalid_request_error", nullptr},
                        Case{ErrorCode::kUnsupported, 400, "invalid_request_error", "unsupported_parameter"},
                        Case{ErrorCode::kContextLength, 400, "invalid_request_error", "context_length_exceeded"},
                        Case{ErrorCode::kNotFound, 404, "invalid_request_error", "not_found"},
                        Case{ErrorCode::kResourceExhausted, 429, "rate_limit_error", "queue_full"},
                        Case{ErrorCode::kUnavailable, 503, "unavailable_error", "unavailable"},
                        Case{ErrorCode::kInternal, 500, "server_error", "internal_error"}}) {
    const HttpResponse response = api::error_response(Error{c.code, "m\xff", "p"}, "rid");
    CHECK(response.status == c.status);
    const auto error = nlohmann::json::parse(response.body)["error"];
    CHECK(error["type"] == c.type);
    CHECK(error["code"] == c.json_code);
    CHECK(error["param"] == "p");
    bool retry = false;
    for (const auto& [name, value] : response.headers) retry = retry || name == "Retry-After";
    CHECK(retry == (c.status == 429 || c.status == 503));
  }
}
