// A tokenizer from Hugging Face's tokenizer.json: model BPE, byte-level or with byte fallback. What is not served is
// refused by name; ids, merges and added tokens are checked before use.
#include "engine/text/tokenizer_json.h"

#include <algorithm>
#include <cmath>

#include "engine/text/byte_alphabet.h"
#include "engine/text/sentencepiece.h"
#include "engine/text/token_merges.h"

namespace slipstream {
namespace tokenizer_json {
namespace {

constexpr int64_t kMaxId = (1 << 24) - 1;

Error wrong_type(const char* key, std::string_view type) {
  return corrupt("tokenizer.json: \"" + std::string(key) + "\" is not " + std::string(type));
}

/// An id from the file. -1 is never returned.
Result<int32_t> id_of(const Json& value, std::string_view token) {
  const bool unsigned_id = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMaxId);
  if (!unsigned_id)
    return corrupt("tokenizer.json: the id of \"" + std::string(token.substr(0, 80)) + "\" is " +
                   value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40) + "; 0 to " +
                   std::to_string(kMaxId) + " are accepted");
  return static_cast<int32_t>(value.get<uint64_t>());
}

struct Entry {
  const std::string* text = nullptr;
  bool added = false;
  bool special = false;
};

class Loader {
 public:
  explicit Loader(const Json& root) : root_(root) {}

  Result<std::unique_ptr<BpeTokenizer>> load() {
    if (!root_.is_object()) return corrupt("tokenizer.json: the top level is not an object");
    SLIP_RETURN_IF_ERROR(check_model());
    SLIP_RETURN_IF_ERROR(read_steps());
    SLIP_RETURN_IF_ERROR(read_entries());
    SLIP_RETURN_IF_ERROR(fill_vocabulary());
    SLIP_RETURN_IF_ERROR(read_merges());
    SLIP_RETURN_IF_ERROR(add_added_tokens());
    SLIP_RETURN_IF_ERROR(read_post_processor());
    for (const AddedToken& token : parts_.added.tokens())
      if (token.special && names_end_of_turn(token.content)) add_eos(token.id);
    parts_.description = std::string(byte_level_ ? "byte-level BPE, " : "SentencePiece-style BPE, ") +
                         std::to_string(parts_.vocabulary.size()) + " tokens, tokenizer.json";
    return std::make_unique<BpeTokenizer>(std::move(parts_));
  }

 private:
  Status check_model() {
    const Json* model = member(root_, "model");
    if (model == nullptr) return corrupt("tokenizer.json: \"model\" is missing");
    model_ = model;
    std::string type = type_of(*model);
    if (type.empty() && member(*model, "merges") != nullptr) type = "BPE";  // files of the first versions
    if (type != "BPE")
      return unsupported("tokenizer.json: model \"" + type + "\" is not supported; BPE is (byte-level, or with "
                         "byte_fallback)");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      SLIP_TRY(const std::string value, string(*model, key, ""));
      if (!value.empty())
        return unsupported(std::string("tokenizer.json: model.") + key + " \"" + value + "\" is not supported");
    }
    if (const Json* dropout = member(*model, "dropout"); dropout != nullptr && *dropout != 0.0)
      return unsupported("tokenizer.json: model.dropout is not supported: it makes tokens random");
    SLIP_TRY(parts_.bpe.whole_words_first, boolean(*model, "ignore_merges", false));
    SLIP_TRY(parts_.bpe.byte_fallback, boolean(*model, "byte_fallback", false));
    SLIP_TRY(parts_.bpe.fuse_unknown, boolean(*model, "fuse_unk", false));
    return Ok{};
  }

  Status read_steps() {
    if (const Json* normalizer = member(root_, "normalizer"))
      SLIP_RETURN_IF_ERROR(add_normalizer(*normalizer, &parts_.normalizer));
    if (const Json* pretokenizer = member(root_, "pre_tokenizer"))
      SLIP_RETURN_IF_ERROR(add_pretokenizer(*pretokenizer, &parts_.pretokenizer));
    const Json* decoder = member(root_, "decoder");
    if (decoder == nullptr)
      return unsupported("tokenizer.json: \"decoder\" is missing; ByteLevel, Metaspace or a Sequence is needed");
    SLIP_RETURN_IF_ERROR(add_decoder(*decoder, &decoding_));
    byte_level_ = parts_.pretokenizer.byte_level();
    if (byte_level_ != decoding_.byte_level)
      return unsupported("tokenizer.json: pre-tokenizer and decoder disagree: only one of them is ByteLevel");
    if (byte_level_ && (decoding_.marks || decoding_.bytes))
      return unsupported("tokenizer.json: a ByteLevel decoder together with others");
    parts_.bpe.units = byte_level_ ? Bpe::Units::kBytes : Bpe::Units::kCharacters;
    parts_.drops_first_space = decoding_.drops_first_space;
    return Ok{};
  }

  Status enter(const std::string& text, int32_t id, bool added, bool special) {
    if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(static_cast<size_t>(id) + 1);
    Entry& entry = entries_[static_cast<size_t>(id)];
    if (entry.text != nullptr && *entry.text != text)
      return corrupt("tokenizer.json: \"" + entry.text->substr(0, 80) + "\" and \"" + text.substr(0, 80) +
                     "\" have the same id " + std::to_string(id));
    count_ += entry.text == nullptr;
    entry = {&text, entry.added || added, entry.special || special};
    return Ok{};
  }

  Status read_entries() {
    const Json* vocabulary = member(*model_, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) return wrong_type("model.vocab", "an object");
    for (auto entry = vocabulary->begin(); entry != vocabulary->end(); ++entry) {
      SLIP_TRY(const int32_t id, id_of(entry.value(), entry.key()));
      SLIP_RETURN_IF_ERROR(enter(entry.key(), id, false, false));
    }
    if (const Json* added = member(root_, "added_tokens")) {
      if (!added->is_array()) return wrong_type("added_tokens", "a list");
      for (const Json& token : *added) {
        const Json* content = member(token, "content");
        const Json* value = member(token, "id");
        if (content == nullptr || !content->is_string() || value == nullptr)
          return corrupt("tokenizer.json: an added token has no content or no id");
        const auto& text = content->get_ref<const std::string&>();
        if (text.empty() || text.size() > AddedTokens::kMaxContentBytes)
          return corrupt("tokenizer.json: an added token has " + std::to_string(text.size()) + " bytes; 1 to " +
                         std::to_string(AddedTokens::kMaxContentBytes) + " are accepted");
        SLIP_TRY(const int32_t id, id_of(*value, text));
        SLIP_TRY(const bool special, boolean(token, "special", false));
        SLIP_RETURN_IF_ERROR(enter(text, id, true, special));
      }
    }
    if (entries_.empty()) return corrupt("tokenizer.json: the vocabulary is empty");
    if (entries_.size() > 2 * count_ + 65536)
      return corrupt("tokenizer.json: the highest id is " + std::to_string(entries_.size() - 1) + ", but only " +
                     std::to_string(count_) + " tokens are there");
    return Ok{};
  }

  Status fill_vocabulary() {
    const auto size = static_cast<int32_t>(entries_.size());
    parts_.vocabulary = Vocabulary(size);
    parts_.bpe.vocabulary_size = size;
    parts_.bpe.byte_ids.fill(-1);
    parts_.special.assign(entries_.size(), false);
    std::vector<bool> findable(entries_.size(), false);
    std::string bytes;
    for (int32_t id = 0; id < size; ++id) {
      const Entry& entry = entries_[static_cast<size_t>(id)];
      if (entry.text == nullptr) continue;
      parts_.special[static_cast<size_t>(id)] = entry.special;
      bytes.clear();
      bool ordinary = !entry.special && !entry.text->empty();
      if (byte_level_) {
        // A user-defined token is literal text, unless it stands for bytes in the model's own vocabulary too.
        if (entry.added || !append_bytes_of(bytes, *entry.text)) {
          ordinary = false;
          bytes = *entry.text;
        }
      } else {
        const int byte = parts_.bpe.byte_fallback || decoding_.bytes ? byte_of_piece(*entry.text) : -1;
        if (byte >= 0) {
          parts_.bpe.byte_ids[static_cast<size_t>(byte)] = id;
          bytes = std::string(1, static_cast<char>(byte));
          ordinary = false;
        } else {
          bytes = decoding_.marks && !entry.special ? spaced(*entry.text) : *entry.text;
        }
        if (ordinary && unicode::length_at(*entry.text, 0) == entry.text->size())
          parts_.bpe.characters.emplace(unicode::code_point_at(*entry.text, 0), id);
      }
      findable[static_cast<size_t>(id)] = ordinary;
      parts_.vocabulary.set_bytes(id, bytes);
    }
    if (const int32_t twin = parts_.vocabulary.index(findable); twin >= 0)
      return corrupt("tokenizer.json: token " + std::to_string(twin) + " \"" +
                     entries_[static_cast<size_t>(twin)].text->substr(0, 80) + "\" decodes like another token");
    for (int byte = 0; byte_level_ && byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      parts_.bpe.byte_ids[static_cast<size_t>(byte)] = parts_.vocabulary.find(std::string_view(&c, 1));
    }
    SLIP_TRY(const std::string unknown, string(*model_, "unk_token", ""));
    if (unknown.empty()) return Ok{};
    for (int32_t id = 0; id < size && parts_.bpe.unknown_id < 0; ++id)
      if (entries_[static_cast<size_t>(id)].text != nullptr && *entries_[static_cast<size_t>(id)].text == unknown)
        parts_.bpe.unknown_id = id;
    if (parts_.bpe.unknown_id < 0)
      return corrupt("tokenizer.json: unk_token \"" + unknown + "\" is not in the vocabulary");
    return Ok{};
  }

  Status read_merges() {
    const Json* merges = member(*model_, "merges");
    if (merges == nullptr || !merges->is_array()) return wrong_type("model.merges", "a list");
    TokenMerges table(&parts_.vocabulary, &parts_.bpe, merges->size());
    for (const Json& merge : *merges) {
      if (merge.is_string()) {
        SLIP_RETURN_IF_ERROR(table.add_line(merge.get_ref<const std::string&>()));
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        SLIP_RETURN_IF_ERROR(
            table.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()));
      } else {
        return corrupt("tokenizer.json: a merge is neither \"left right\" nor [\"left\", \"right\"]");
      }
    }
    return Ok{};
  }

  Status add_added_tokens() {
    const Json* added = member(root_, "added_tokens");
    if (added == nullptr) return Ok{};
    for (const Json& value : *added) {
      AddedToken token;
      token.content = value["content"].get<std::string>();
      SLIP_TRY(token.id, id_of(value["id"], token.content));
      SLIP_TRY(token.special, boolean(value, "special", false));
      SLIP_TRY(token.normalized, boolean(value, "normalized", !token.special));
      SLIP_TRY(token.left_strip, boolean(value, "lstrip", false));
      SLIP_TRY(token.right_strip, boolean(value, "rstrip", false));
      SLIP_TRY(token.single_word, boolean(value, "single_word", false));
      if (parts_.added.find(token.content) >= 0 || parts_.added_normalized.find(token.content) >= 0)
        return corrupt("tokenizer.json: the added token \"" + token.content.substr(0, 80) + "\" is there twice");
      // Without a normalizer there is one kind of text, and one search.
      if (token.normalized && !parts_.normalizer.empty()) {
        SLIP_TRY(std::string content, parts_.normalizer.apply(token.content));
        if (!content.empty()) token.content = std::move(content);
        if (parts_.added_normalized.find(token.content) < 0) parts_.added_normalized.add(std::move(token));
      } else {
        parts_.added.add(std::move(token));
      }
    }
    return Ok{};
  }

  void add_eos(int32_t id) {
    if (std::find(parts_.eos.begin(), parts_.eos.end(), id) == parts_.eos.end()) parts_.eos.push_back(id);
  }

  Result<int32_t> template_token(const Json& post, const Json& item) {
    SLIP_TRY(const std::string name, string(item["SpecialToken"], "id", ""));
    const Json* tokens = member(post, "special_tokens");
    const Json* token = tokens == nullptr ? nullptr : member(*tokens, name.c_str());
    const Json* ids = token == nullptr ? nullptr : member(*token, "ids");
    if (ids == nullptr || !ids->is_array() || ids->size() != 1)
      return corrupt("tokenizer.json: the post-processor's token \"" + name + "\" has no single id");
    SLIP_TRY(const int32_t id, id_of((*ids)[0], name));
    if (id >= parts_.vocabulary.size() || entries_[static_cast<size_t>(id)].text == nullptr)
      return corrupt("tokenizer.json: the post-processor's token \"" + name + "\" has the id " + std::to_string(id) +
                     ", which is not in the vocabulary");
    return id;
  }

  /// TemplateProcessing of a single text: at most one token before and one after it.
  Status read_post_processor() {
    const Json* post = member(root_, "post_processor");
    if (post == nullptr) return Ok{};
    std::vector<const Json*> steps{post};
    if (type_of(*post) == "Sequence") {
      steps.clear();
      const Json* list = member(*post, "processors");
      if (list == nullptr || !list->is_array()) return corrupt("tokenizer.json: a Sequence has no list \"processors\"");
      for (const Json& item : *list) steps.push_back(&item);
    }
    for (const Json* step : steps) {
      const std::string type = type_of(*step);
      if (type == "ByteLevel") continue;  // offsets only
      if (type != "TemplateProcessing")
        return unsupported("tokenizer.json: post-processor \"" + type +
                           "\" is not supported; known are ByteLevel, TemplateProcessing, Sequence");
      const Json* single = member(*step, "single");
      if (single == nullptr || !single->is_array())
        return corrupt("tokenizer.json: TemplateProcessing has no list \"single\"");
      bool text_seen = false;
      for (const Json& item : *single) {
        if (member(item, "Sequence") != nullptr) {
          text_seen = true;
          continue;
        }
        if (member(item, "SpecialToken") == nullptr)
          return unsupported("tokenizer.json: TemplateProcessing with an item that is neither Sequence nor "
                             "SpecialToken");
        SLIP_TRY(const int32_t id, template_token(*step, item));
        if (text_seen ? parts_.adds_eos : parts_.adds_bos)
          return unsupported("tokenizer.json: TemplateProcessing with two tokens on one side of the text");
        if (text_seen) {
          parts_.adds_eos = true;
          parts_.eos.insert(parts_.eos.begin(), id);
        } else {
          parts_.adds_bos = true;
          parts_.bos = id;
        }
      }
    }
    return Ok{};
  }

  const Json& root_;
  const Json* model_ = nullptr;
  Decoding decoding_;
  bool byte_level_ = false;
  std::vector<Entry> entries_;  // by id
  size_t count_ = 0;
  TokenizerParts parts_;
};

}  // namespace

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<bool> boolean(const Json& object, const char* key, bool otherwise) {
  const Json* value = member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrong_type(key, "true or false");
  return value->get<bool>();
}

Result<std::string> string(const Json& object, const char* key, std::string_view otherwise) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) return wrong_type(key, "a string");
  return value->get<std::string>();
}

std::string type_of(const Json& step) {
  const Json* type = member(step, "type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : std::string();
}

Result<std::unique_ptr<BpeTokenizer>> load(std::string_view text) {
  if (const size_t bad = unicode::first_invalid_utf8(text); bad != std::string_view::npos)
    return corrupt("tokenizer.json: not valid UTF-8 at byte " + std::to_string(bad));
  const Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded()) return corrupt("tokenizer.json: not valid JSON");
  return Loader(root).load();
}

}  // namespace tokenizer_json

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view text) {
  SLIP_TRY(std::unique_ptr<BpeTokenizer> loaded, tokenizer_json::load(text));
  return std::shared_ptr<const Tokenizer>(std::move(loaded));
}

}  // namespace slipstream
