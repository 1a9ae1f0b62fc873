// Messages or text -> token ids, as the generation endpoints and /tokenize share it.
#pragma once

#include <vector>

#include "server/api/request_schema.h"
#include "server/services.h"

namespace slipstream::api {

/// The rendered prompt. kUnsupported when the model has no template; the template's own complaints are
/// kInvalidArgument.
Result<std::vector<PromptSegment>> render_chat(const Services& services, const GenerationRequest& request);

/// render_chat, then ids. Too many bytes for the context are refused before tokenising.
Result<std::vector<int32_t>> tokenize_chat(const Services& services, const GenerationRequest& request);

/// tokenize_chat, and into `request` how its answers are divided: every endpoint that answers messages calls this.
Result<std::vector<int32_t>> prepare_chat(const Services& services, GenerationRequest* request);

/// How many tokens tokenize_chat would give, whether or not the context can hold them.
Result<int64_t> count_chat_tokens(const Services& services, const GenerationRequest& request);

/// A plain prompt: no special tokens are read from the text; led by bos where the vocabulary asks for it.
Result<std::vector<int32_t>> tokenize_text(const Services& services, const std::string& text, bool add_special);

}  // namespace slipstream::api
