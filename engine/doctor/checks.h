// The doctor's checks, one function each: what they look at, and what they add to the report. Knows models, text and
// executors; no command line.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/doctor/doctor.h"
#include "engine/doctor/probe.h"
#include "engine/text/tokenizer.h"

namespace slipstream {

using DoctorProgress = std::function<void(const std::string&)>;

inline DoctorCheck passed(std::string part, std::string name, std::string text) {
  return {std::move(part), std::move(name), CheckStatus::kOk, std::move(text)};
}
inline DoctorCheck failed(std::string part, std::string name, std::string text) {
  return {std::move(part), std::move(name), CheckStatus::kFailed, std::move(text)};
}

/// The stored tensors: counts, formats, sizes; values that are not finite or matrices of zeros, from a few rows of each.
void check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& config, int32_t model_layers, bool dummy, DoctorReport* report);

/// Tokenizer and chat template: round trips, ids within the model's vocabulary. Gives `rows` token ids of the prompt, or
/// made-up ones where there is no tokenizer.
std::vector<int32_t> check_text(const Checkpoint& checkpoint, const ModelConfig& config, const std::string& prompt, int32_t rows,
                                bool dummy, DoctorReport* report);

/// Every op on the tokens as prefill, chunk, decode, verify rows and a mixed step, and the sampler; `checked` compares.
void check_ops(Probe& probe, CheckedOps& checked, std::span<const int32_t> tokens, DoctorReport* report, const DoctorProgress& progress);

/// The residual stream behind every layer, and the logits, of the unchecked backend against the reference. step_error: what
/// one layer's rounding may come to.
void check_layers(Probe& probe, Probe& reference, std::span<const int32_t> tokens, double step_error, DoctorReport* report);

/// Where a layer differs though no op of it failed: checks that layer's ops alone, with all others at full speed.
void bisect_layer(Probe& probe, CheckedOps& checked, std::span<const int32_t> tokens, DoctorReport* report);

/// One sequence as the serving executor continued it.
struct EngineText {
  std::vector<int32_t> tokens;    // prompt, then what was drawn
  int32_t prompt_tokens = 0;
  std::vector<float> logprobs;    // of what was drawn
};
inline constexpr int32_t kEngineTokens = 10;  // drawn for each sequence

/// The executor that serves, with weights of its own: two sequences decoded through slots and cache, on a GPU from captured
/// graphs. Greedy.
Result<std::vector<EngineText>> run_engine(Checkpoint& checkpoint, const ModelConfig& config, const DoctorOptions& options,
                                           const LoadOptions& load, std::span<const int32_t> tokens);
/// Each token and its log probability must be those of one plain forward pass over the same text.
/// row_exact: the backend gives a row the same bits in every batch.
void check_engine(Probe& plain, std::span<const EngineText> texts, const std::string& backend, bool row_exact, DoctorReport* report);

/// Sets report->verdict.
void give_verdict(DoctorReport* report);

}  // namespace slipstream
