#include "engine/model/rope.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

void check_frequencies(const ModelConfig& config, const std::vector<double>& expected) {
  const std::vector<float> got = rope_inverse_frequencies(config);
  REQUIRE(got.size() == expected.size());
  // transformers computes in float32: a few units in the last place of the power.
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-6));
}

ModelConfig plain(int32_t dim, float theta) {
  ModelConfig c;
  c.head_dim = c.rope_dim = dim;
  c.rope_theta = theta;
  return c;
}

}  // namespace

// The expected numbers are ROPE_INIT_FUNCTIONS of transformers 5.24.0 on the same parameters.
TEST_CASE("plain and linear frequencies") {
  check_frequencies(plain(4, 10000), {1.0, 0.01});
  ModelConfig c = plain(8, 10000);
  c.rope_scaling = RopeScaling::kLinear;
  c.rope_factor = 4;
  check_frequencies(c, {0.25, 0.025, 0.0024999999, 0.00025000001});
}

TEST_CASE("Llama 3 frequencies: kept, blended and slowed") {
  ModelConfig c = plain(16, 500000);
  c.rope_scaling = RopeScaling::kLlama3;
  c.rope_factor = 8;
  c.rope_low_freq_factor = 1;
  c.rope_high_freq_factor = 4;
  c.rope_original_context = 8192;
  check_frequencies(c, {1.0, 0.19392276, 0.037606031, 0.0072926651, 0.00052484602, 3.4281024e-05, 6.6478697e-06,
                        1.2891732e-06});
}

TEST_CASE("YaRN frequencies, with a rounded range and without") {
  ModelConfig c = plain(32, 1000000);
  c.rope_scaling = RopeScaling::kYarn;
  c.rope_factor = 4;
  c.rope_original_context = 32768;
  check_frequencies(c, {1.0, 0.42169651, 0.17782794, 0.074989416, 0.031622779, 0.013335215, 0.0047799014, 0.0016599617,
                        0.00055, 0.00016867858, 4.4456985e-05, 1.8747356e-05, 7.9056936e-06, 3.3338035e-06,
                        1.4058534e-06, 5.9284343e-07});
  c = plain(16, 10000);
  c.rope_scaling = RopeScaling::kYarn;
  c.rope_factor = 40;
  c.rope_original_context = 4096;
  c.rope_beta_fast = 16;
  c.rope_truncate = false;
  check_frequencies(c, {1.0, 0.31622776, 0.1, 0.031622779, 0.0068425788, 0.00088353385, 2.4999999e-05, 7.9056945e-06});
}

TEST_CASE("GGUF's divisors are applied on top") {
  ModelConfig c = plain(4, 10000);
  c.rope_freqs = {1.0f, 8.0f};
  check_frequencies(c, {1.0, 0.00125});
}
