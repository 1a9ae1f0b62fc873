// YAML: keys, maps, lists, and everything that is refused with its line.
#include "config/yaml.h"
#include "load_case.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

namespace {
Config good(const std::string& text) {
  TemporaryFile file(text);
  auto loaded = load_args({"--config", file.path()});
  INFO(error_of(loaded));
  REQUIRE(loaded.ok());
  return *loaded;
}
}  // namespace

TEST_CASE("every kind of value") {
  const Config c = good(
      "# comment\n"
      "model: /models/x\n"
      "max_model_len: 32k\n"
      "port: \"8100\"\n"
      "served-model-name:\n  - a\n  - b\n"
      "api-key: single\n"
      "enable-prefix-caching: no\n"
      "gpu-memory-utilization: 0.75\n"
      "kv-cache-memory-bytes: 1GiB\n"
      "default-chat-template-kwargs: {enable_thinking: false, level: \"3\", n: 3, list: [1, x]}\n"
      "speculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n");
  CHECK(c.engine.model == "/models/x");
  CHECK(c.engine.max_model_len == 32000);
  CHECK(c.server.port == 8100);
  CHECK(c.server.served_model_names == std::vector<std::string>{"a", "b"});
  CHECK(c.server.api_keys == std::vector<std::string>{"single"});
  CHECK_FALSE(c.engine.enable_prefix_caching);
  CHECK(c.engine.gpu_memory_utilization == 0.75);
  CHECK(c.engine.kv_cache_memory_bytes == 1073741824);
  CHECK(c.engine.default_chat_template_kwargs == R"({"enable_thinking":false,"level":"3","n":3,"list":[1,"x"]})");
  CHECK(c.engine.speculative.method == "ngram");
  CHECK(c.engine.speculative.num_speculative_tokens == 4);
}

TEST_CASE("an empty file sets nothing") {
  CHECK(good("").server.port == 8000);
  CHECK(good("---\n# nothing\n").server.port == 8000);
}

TEST_CASE("errors name the line, the key and the reason") {
  CHECK(yaml_error("port: 1\nprto: 2\n") ==
        "case.yaml:2: prto: unknown setting; did you mean port? (known ones: slipstream serve --help)");
  CHECK(yaml_error("port: 70000\n") == "case.yaml:1: port: \"70000\" is out of range: 0 to 65535");
  CHECK(yaml_error("host: a\n\nport: 1\nport: 2\n") == "case.yaml:4: key \"port\" was given on line 3");
  CHECK(yaml_error("max-num-seqs: 1\nmax_num_seqs: 2\n").find("conflicts with case.yaml:1") != std::string::npos);
  CHECK(yaml_error("port:\n") == "case.yaml:1: port: has no value; give one, or delete the line");
  CHECK(yaml_error("port: [1, 2]\n") == "case.yaml:1: port: takes one value, not a list");
  CHECK(yaml_error("port: {a: 1}\n") == "case.yaml:1: port: takes one value, not a map");
  CHECK(yaml_error("served-model-name: [[a]]\n").find("only hold plain values") != std::string::npos);
  CHECK(yaml_error("speculative-config:\n  method: ngram\n  metod: x\n").find("case.yaml:3: metod: unknown setting") == 0);
  CHECK(yaml_error("speculative-config: {method: mtp}\n").find("is a kind of drafter that is not served; use dflash or ngram") != std::string::npos);
  CHECK(yaml_error("enable-lora: true\n").find("LoRA adapters are not served") != std::string::npos);
  CHECK(yaml_error("config: other.yaml\n").find("belongs on the command line") != std::string::npos);
  CHECK(yaml_error("- a\n- b\n").find("case.yaml:1: expected lines of the form") == 0);
  CHECK(yaml_error("just text").find("expected lines of the form") != std::string::npos);
}

TEST_CASE("YAML that only hides things is refused") {
  CHECK(yaml_error("host: &a x\nops-host: *a\n") == "case.yaml:1: anchors (&name) are not accepted; write the value out");
  CHECK(yaml_error("host: *a\n").find("case.yaml:1:") == 0);
  CHECK(yaml_error("host: !!binary aGk=\n").find("tags are not accepted") != std::string::npos);
  CHECK(yaml_error("host: x\n---\nhost: y\n").find("more than one document") != std::string::npos);
  CHECK(yaml_error(std::string("host: x\n\0", 9)).find("case.yaml:2: a NUL byte") == 0);
  CHECK(yaml_error("host: [").find("not valid YAML") != std::string::npos);
  CHECK(yaml_error("? [a]\n: b\n").find("a key must be a plain name") != std::string::npos);
  CHECK(yaml_error("host: " + std::string(100, '[') + std::string(100, ']') + "\n").find("nested deeper than 16 levels") != std::string::npos);
}

TEST_CASE("a flood of values stops early") {
  std::string text = "served-model-name: [";
  for (int i = 0; i < kYamlNodes + 10; ++i) text += "a,";
  CHECK(yaml_error(text + "a]").find("more than 100000 values") != std::string::npos);
}
