// How many drafts each sequence verifies in a step: as many as raise the tokens a millisecond gives. Owns the measured step
// times and what is expected of a sequence not seen yet; the sequences own their averages. Engine thread only. Changes widths
// only, never a result.
//
// A step of n sequences takes P(n) ms without drafts and T(R) with R rows, from moving averages. A sequence's draft at position
// j is accepted with its survival S_j, the product of its averages a_1..a_j, each the share of drafts j that were accepted among
// those whose predecessors were; a draft that was planned and not there counts as refused, and an average that gets no results
// fades towards a half. Drafts of all sequences, best survival first, are added while
//   (n + sum of the S taken) / T(n + drafts taken)
// beats n / P(n) and reaches a new high. A number of sequences that was never timed without drafts goes without first, and now
// and then again. The choice does not look at the drafts themselves, so it cannot favour some tokens over others.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace slipstream {

enum class DraftMode : uint8_t { kFixed, kAdaptive };

/// Moving averages of one sequence.
struct Acceptance {
  static constexpr int32_t kPositions = 16;
  std::array<float, kPositions> share{};    // a_1, a_2, …
  std::array<uint16_t, kPositions> seen{};  // results in each, saturating; 0: still everybody's average
  int32_t steps = 0;                        // decode steps since its last probe
  int32_t wait = 64;                        // steps until the next: twice as many after each that nothing came of
};

/// Steps of `sequences`, with `rows` rows in all.
class StepTimes {
 public:
  void record(int32_t sequences, int32_t rows, double ms);
  /// Whether a step of about so many sequences was timed without drafts.
  bool knows(int32_t sequences) const;
  /// Milliseconds; sequences are known. Between measurements by line, from the plain step on. Beyond the last it grows as from the
  /// plain step to the last, and stays flat where no step with drafts was measured: what was never tried is tried.
  double of(int32_t sequences, int32_t rows) const;

 private:
  struct Average {
    double ms = 0;
    int32_t samples = 0;
    void add(double value);
  };
  void drift(double change, const Average* measured);

  std::map<int32_t, Average> plain_;   // by sequences, in few classes
  std::map<int32_t, Average> drafted_; // by rows, of steps with drafts
};

class DraftPolicy {
 public:
  DraftPolicy(DraftMode mode, int32_t max_drafts);

  /// Averages for a new sequence.
  Acceptance fresh() const { return everybody_; }
  /// One decode step without prompt rows: its sequences, and rows planned.
  void record_step(int32_t sequences, int32_t rows, double ms) { times_.record(sequences, rows, ms); }
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
  static constexpr float kSharedWeight = 0.02f; // and in everybody's, for which a sequence's first results count
  static constexpr int32_t kSharedResults = 4, kNewDrafts = 2;  // drafts of a sequence without results
  static constexpr float kFade = 1.0f / 2048;   // of an average in a step that brings no result for it
  static constexpr double kMargin = 1.01;       // what drafts must promise over a plain step
  static constexpr int32_t kProbeSteps = 64, kMostProbeSteps = 256, kProbeDrafts = 2;
  static constexpr int32_t kPlainSteps = 256;   // steps with drafts until one goes without, to time it

  void choose_adaptive(std::span<const Candidate> candidates, int32_t rows);
  /// Widths of the best prefix of all drafts in order of survival.
  void fill(std::span<const Candidate> candidates, int32_t rows);

  const DraftMode mode_;
  const int32_t max_drafts_;
  StepTimes times_;
  Acceptance everybody_;
  int32_t since_plain_ = 0;
  int64_t probes_ = 0;
  std::vector<int32_t> widths_, order_;
  struct Next {
    float survival;
    int32_t candidate;
    bool operator<(const Next& other) const { return survival < other.survival; }
  };
  std::vector<Next> heap_;
};

}  // namespace slipstream
