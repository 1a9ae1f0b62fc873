// Streams as servers send them, whole and cut at every byte.
#include "server/bench/stream.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::bench;

namespace {
const std::string kStream =
    ": comment\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";
}

TEST_CASE("a chat stream, cut anywhere") {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    AnswerStream answer(true);
    answer.add(std::string_view(kStream).substr(0, cut), 10);
    answer.add(std::string_view(kStream).substr(cut), 30);
    const auto sample = answer.finish(50);
    INFO(cut);
    REQUIRE(sample.ok());
    CHECK(sample->pieces == 2);
    CHECK(sample->output_tokens == 3);
    CHECK(sample->prompt_tokens == 9);
    CHECK(sample->tokens_from_usage);
    CHECK(sample->finish_reason == "stop");
    CHECK(sample->e2e_ms == 50);
    CHECK((sample->ttft_ms == 10 || sample->ttft_ms == 30));
  }
}

TEST_CASE("times of pieces") {
  AnswerStream answer(false);
  answer.add("data: {\"choices\":[{\"text\":\"\"}]}\n\n", 5);  // an empty piece is no token
  answer.add("data: {\"choices\":[{\"text\":\"a\"}]}\n\n", 10);
  answer.add("data: {\"choices\":[{\"text\":\"b\"}]}\n\n", 25);
  answer.add("data: [DONE]\n\n", 26);
  const auto sample = answer.finish(27);
  REQUIRE(sample.ok());
  CHECK(sample->ttft_ms == 10);
  CHECK(sample->gaps_ms == std::vector<double>{15});
  CHECK(sample->output_tokens == 2);
  CHECK_FALSE(sample->tokens_from_usage);
}

TEST_CASE("broken streams are failures") {
  const auto error = [](const std::string& text) {
    AnswerStream answer(true);
    answer.add(text, 1);
    const auto sample = answer.finish(2);
    return sample.ok() ? std::string() : sample.error().message;
  };
  CHECK(error("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").find("without [DONE]") != std::string::npos);
  CHECK(error("data: [DONE]\n\n").find("no text") != std::string::npos);
  CHECK(error("data: {\"error\":{\"message\":\"boom\"}}\n\ndata: [DONE]\n\n").find("boom") != std::string::npos);
  CHECK(error("data: {oops\n\ndata: [DONE]\n\n").find("no JSON object") != std::string::npos);
}

TEST_CASE("bodies") {
  CHECK(request_body("m", false, "p\n", 3, 0.5, true) ==
        R"({"ignore_eos":true,"max_tokens":3,"model":"m","prompt":"p\n","stream":true,"stream_options":{"include_usage":true},"temperature":0.5})");
  CHECK(*first_model(R"({"data":[{"id":"x"},{"id":"y"}]})") == "x");
  CHECK_FALSE(first_model("{}").ok());
  CHECK(error_text(R"({"error":{"message":"no such model"}})") == "no such model");
}
