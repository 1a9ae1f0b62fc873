// What SentencePiece vocabularies have of their own: spaces written as U+2581, byte pieces, and merges implied by
// scores. Knows no file format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/bpe.h"

namespace slipstream {

/// 0..255 for "<0x00>".."<0xFF>", else -1.
int byte_of_piece(std::string_view piece);

/// The text of a piece: U+2581 is a space.
std::string spaced(std::string_view piece);

/// SentencePiece joins any neighbours whose join is a piece, best score first. So each cut of a mergeable piece into
/// two mergeable pieces or single characters is a merge, ranked by the piece's score. Characters that are no piece get
/// ids from bpe->vocabulary_size on. Fills bpe->characters and bpe->merges. Sizes of the three vectors are equal.
void merges_from_scores(const std::vector<std::string>& pieces, const std::vector<double>& scores,
                        const std::vector<bool>& mergeable, Bpe* bpe);

}  // namespace slipstream
