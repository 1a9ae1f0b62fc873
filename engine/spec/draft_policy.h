// How many drafts each sequence verifies in a step: as many as raise the tokens a millisecond gives. Owns the measured step
// times and what is expected of a sequence not seen yet; the sequences own their averages. Engine thread only. Changes widths
// only, never a result.
//
// A decode step of R rows takes T(R) ms, from moving averages. A sequence's draft at position j is accepted with its survival
// S_j, the product of its averages a_1..a_j, each the share of drafts j that were accepted among those whose predecessors
// were; a draft that was planned and not there counts as refused, and an average that gets no results fades towards a half. Drafts of all sequences, best survival first, are added while
//   (sequences + sum of the S taken) / T(sequences + drafts taken)
// reaches a new high. A number of sequences that was never timed without drafts goes without first. The choice does not look at the drafts themselves, so it cannot favour some tokens over others.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace slipstream {

enum class DraftMode : uint8_t { kOff, kFixed, kAdaptive };

/// Moving averages of one sequence.
struct Acceptance {
  static constexpr int32_t kPositions = 16;
  std::array<float, kPositions> share{};  // a_1, a_2, …
  std::array<uint16_t, kPositions> seen{};  // results in each, saturating; 0: still everybody's average
  int32_t steps = 0;                      // decode steps since its last probe
  int32_t wait = 64;                      // steps until the next: twice as many after each that nothing came of
};

class StepTimes {
 public:
  /// One step without prompt rows.
  void record(int32_t rows, double ms);
  /// Milliseconds of a step of so many rows, between measurements by line. Beyond the last it grows as from the first to the
  /// last, and stays flat with one alone: what was never tried is tried. 1 when nothing is known.
  double of(int32_t rows) const;
  /// Whether a step of about so many rows was measured.
  bool knows(int32_t rows) const;

 private:
  std::map<int32_t, double> ms_;  // by rows, in few classes
};

class DraftPolicy {
 public:
  DraftPolicy(DraftMode mode, int32_t max_drafts);

  /// Averages for a new sequence.
  Acceptance fresh() const { return everybody_; }
  /// One decode step without prompt rows, of so many rows planned.
  void record_step(int32_t rows, double ms) { times_.record(rows, ms); }
  /// A span with `planned` drafts of which the first `accepted` were; `ended`: the sequence stopped there, so that the next
  /// one says nothing.
  void record_span(int32_t planned, int32_t accepted, bool ended, Acceptance* own);

  struct Candidate {
    Acceptance* own = nullptr;
    int32_t most = 0;     // drafts it may have
  };
  /// Widths for a step of these sequences; all drafts together take at most `rows` rows.
  const std::vector<int32_t>& choose(std::span<const Candidate> candidates, int32_t rows);

  const StepTimes& times() const { return times_; }
  /// Steps in which a sequence got more drafts than seemed worth it, only to see whether they are by now.
  int64_t probes() const { return probes_; }

 private:
  static constexpr float kWeight = 0.05f;       // of the newest result in a sequence's averages
  static constexpr float kSharedWeight = 0.01f; // and in everybody's
  static constexpr float kFade = 1.0f / 2048;   // of an average in a step that brings no result for it
  static constexpr double kMargin = 1.01;       // what drafts must promise over a plain step
  static constexpr int32_t kProbeSteps = 64, kMostProbeSteps = 256, kProbeDrafts = 2;

  void choose_adaptive(std::span<const Candidate> candidates, int32_t rows);

  const DraftMode mode_;
  const int32_t max_drafts_;
  StepTimes times_;
  Acceptance everybody_;
  int64_t probes_ = 0;
  std::vector<int32_t> widths_;
  struct Next {
    float survival;
    int32_t candidate;
    bool operator<(const Next& other) const { return survival < other.survival; }
  };
  std::vector<Next> heap_;
};

}  // namespace slipstream
