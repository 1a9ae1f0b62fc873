// The only source of request bounds. The schema checks, docs/compatibility.md and the limit tests are made from this
// table. Bounds are inclusive.
#pragma once

#include <cstdint>

namespace slipstream::limits {

// ---- bytes on the wire ----
inline constexpr int64_t kBodyBytes = 4 << 20;
inline constexpr int64_t kHeaderLineBytes = 8 << 10;
inline constexpr int64_t kHeaderTotalBytes = 32 << 10;
inline constexpr int32_t kHeaderCount = 100;
inline constexpr int64_t kUriBytes = 8 << 10;
inline constexpr int32_t kHeaderDeadlineMs = 10'000;      // whole header
inline constexpr int32_t kBodyGraceMs = 5'000;            // then at least kBodyBytesPerSecond
inline constexpr int64_t kBodyBytesPerSecond = 16 << 10;
inline constexpr int64_t kBufferedBodiesBytes = 512 << 20; // bodies being received, all connections together
inline constexpr int32_t kIdleConnectionMs = 75'000;      // a kept-alive connection without a request
inline constexpr int64_t kStreamBufferBytes = 256 << 10;  // a slow reader is cut after this …
inline constexpr int32_t kStreamStallMs = 5'000;          // … or after this long without progress
inline constexpr int64_t kAnswerBytesPerSecond = 16 << 10; // a client that reads slower than this for longer is cut too

// ---- JSON ----
inline constexpr int32_t kJsonDepth = 64;
inline constexpr int32_t kJsonKeysPerObject = 2048;       // object members are searched linearly
inline constexpr int32_t kJsonKeys = 1 << 16;             // in one body
inline constexpr int32_t kJsonNumberBytes = 512;

// ---- request fields: {min, max} ----
struct FloatBound { const char* field; double min; double max; };
struct IntBound { const char* field; int64_t min; int64_t max; };

inline constexpr FloatBound kTemperature{"temperature", 0.0, 2.0};
inline constexpr FloatBound kTopP{"top_p", 0.0, 1.0};                 // 0 excluded: top_p must be > 0
inline constexpr FloatBound kMinP{"min_p", 0.0, 1.0};
inline constexpr FloatBound kPresencePenalty{"presence_penalty", -2.0, 2.0};
inline constexpr FloatBound kFrequencyPenalty{"frequency_penalty", -2.0, 2.0};
inline constexpr FloatBound kRepetitionPenalty{"repetition_penalty", 0.01, 10.0};
inline constexpr FloatBound kLogitBias{"logit_bias", -100.0, 100.0};
inline constexpr IntBound kTopK{"top_k", -1, 1 << 20};                // 0 and -1: off
inline constexpr IntBound kN{"n", 1, 16};
inline constexpr IntBound kMaxTokens{"max_tokens", 1, 1 << 24};       // and prompt + output <= context
inline constexpr IntBound kMinTokens{"min_tokens", 0, 1 << 24};       // and <= max_tokens
inline constexpr IntBound kTopLogprobs{"top_logprobs", 0, 20};
inline constexpr IntBound kLogprobs{"logprobs", 0, 20};               // /v1/completions
inline constexpr IntBound kPromptLogprobs{"prompt_logprobs", 0, 20};
inline constexpr IntBound kMaxTokensOfCompletions{"max_tokens", 0, 1 << 24};  // 0: the prompt alone is of interest
inline constexpr IntBound kSeed{"seed", INT64_MIN, INT64_MAX};
inline constexpr IntBound kThinkingTokenBudget{"thinking_token_budget", 0, 1 << 24};
inline constexpr IntBound kPriority{"priority", -1000, 1000};

inline constexpr int32_t kStopStrings = 4;
inline constexpr int32_t kStopStringBytes = 256;
inline constexpr int32_t kStopTokenIds = 64;
inline constexpr int32_t kLogitBiasEntries = 1024;
inline constexpr int32_t kMessages = 4096;
inline constexpr int32_t kTools = 512;
inline constexpr int32_t kToolNameBytes = 128;
inline constexpr int64_t kToolsBytes = 1 << 20;                       // all tools of a request, as compact JSON
inline constexpr int32_t kPromptsPerRequest = 64;                     // /v1/completions
inline constexpr int32_t kChoicesPerRequest = 64;                    // prompts times n
inline constexpr int64_t kOutputTokensPerRequest = 1 << 20;          // choices times max_tokens …
inline constexpr int64_t kLogprobEntriesPerRequest = 1 << 22;        // … times 1 + top_logprobs: what an answer holds
inline constexpr int32_t kBadWords = 256;
inline constexpr int32_t kBadWordBytes = 256;
inline constexpr int32_t kCacheSaltBytes = 1024;
inline constexpr int32_t kRequestIdBytes = 128;
inline constexpr int32_t kStopSequences = 32;                         // /v1/messages
inline constexpr int32_t kMetadataPairs = 16;                         // /v1/responses, as OpenAI bounds them
inline constexpr int32_t kMetadataKeyBytes = 64;
inline constexpr int32_t kMetadataValueBytes = 512;
inline constexpr int32_t kInputItemsPage = 100;                       // GET /v1/responses/{id}/input_items

// ---- grammars (structured output, tools) ----
inline constexpr int64_t kGrammarSourceBytes = 64 << 10;     // all schemas, patterns and texts of one grammar together
inline constexpr int32_t kGrammarDepth = 32;                  // of schemas, groups and formats inside each other
inline constexpr int32_t kGrammarRules = 4096;
inline constexpr int32_t kGrammarAlternatives = 1024;         // ways to meet one schema: anyOf in allOf in anyOf …
inline constexpr int32_t kGrammarStates = 1 << 18;            // of one automaton, and of all rules together
inline constexpr int64_t kGrammarSubsetElements = 1 << 24;    // what making one automaton deterministic may hold
inline constexpr int32_t kGrammarRepeat = 10'000;             // {m,n}, minItems, maxLength and their like
inline constexpr int32_t kGrammarCompileMs = 5'000;
inline constexpr int32_t kGrammarCompilesAtOnce = 4;
inline constexpr int64_t kGrammarCacheBytes = 256 << 20;      // automata and masks, all grammars together
inline constexpr int64_t kGrammarMaskBytes = 16 << 20;        // masks of one grammar
inline constexpr int32_t kGrammarStacks = 64;                 // readings of an output that are followed at once
inline constexpr int32_t kGrammarStackDepth = 256;            // rules inside each other in an output
inline constexpr int32_t kGrammarRollbackTokens = 64;

}  // namespace slipstream::limits
