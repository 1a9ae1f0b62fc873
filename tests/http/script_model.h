// A model that answers what the prompt tells it to, by any chat template: the newest text between the bytes 02 and 03 is the
// script, its alternatives (for choice 0, 1, …) are separated by the byte 1f. Tokens are bytes and the special tokens that the
// test names; the script spells those, too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/run/fake_executor.h"
#include "engine/text/tokenizer.h"

namespace slipstream::stub {

/// Ids 0..255 are bytes; 256 ends an answer; 257 stands behind every prompt and spells nothing; then `specials`, in order.
std::shared_ptr<const Tokenizer> make_script_tokenizer(std::vector<std::string> specials);

/// The law that reads the script from the prompt.
TokenLaw script_law(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace slipstream::stub
