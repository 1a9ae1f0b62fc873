// Tokenizer at the command line, for the Python tests: a request per line of standard input, an answer per line of
// standard output.
//
//   tokenize MODEL             a .gguf file, a tokenizer.json, or a model folder
//   encode HEX                 ids of the text in hexadecimal, added tokens matched (as Hugging Face's encode)
//   plain HEX                  ids of untrusted text
//   decode ID,ID,…             text in hexadecimal, special tokens kept
//   stream ID,ID,…             the same through the incremental detokenizer
//   info                       one line of facts
// Errors are lines "error …".
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {
namespace {

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path) {
  if (path.size() > 5 && path.substr(path.size() - 5) == ".json") {
    std::ifstream file(path, std::ios::binary);
    if (!file) return io_error(path + " cannot be read");
    return Tokenizer::from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  SLIP_TRY(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  return Tokenizer::load(*checkpoint);
}

int nibble(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool from_hex(std::string_view hex, std::string* out) {
  if (hex.size() % 2 != 0) return false;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = nibble(hex[i]), low = nibble(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    out->push_back(static_cast<char>(high * 16 + low));
  }
  return true;
}

std::string to_hex(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

bool from_list(std::string_view list, std::vector<int32_t>* out) {
  while (!list.empty()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), id);
    if (error != std::errc()) return false;
    out->push_back(id);
    list.remove_prefix(static_cast<size_t>(end - list.data()));
    if (!list.empty() && list[0] == ',') list.remove_prefix(1);
  }
  return true;
}

std::string to_list(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out;
}

std::string answer(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view command = line.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  if (command == "encode" || command == "plain") {
    std::string text;
    if (!from_hex(rest, &text)) return "error not hexadecimal";
    const auto ids = tokenizer->encode(text, command == "encode");
    return ids.ok() ? to_list(*ids) : "error " + ids.error().message;
  }
  if (command == "decode" || command == "stream") {
    std::vector<int32_t> ids;
    if (!from_list(rest, &ids)) return "error not a list of ids";
    if (command == "decode") return to_hex(tokenizer->decode(ids, false));
    Detokenizer detokenizer(tokenizer, false);
    std::string out;
    for (const int32_t id : ids) out += detokenizer.push(id);
    return to_hex(out + detokenizer.finish());
  }
  if (command == "info")
    return tokenizer->description() + "; bos " + std::to_string(tokenizer->bos_id()) + ", eos " +
           to_list(tokenizer->eos_ids()) + ", adds bos " + (tokenizer->adds_bos() ? "yes" : "no");
  return "error unknown command";
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize MODEL < requests\n");
    return 2;
  }
  const auto tokenizer = open_tokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(*tokenizer, line) << '\n' << std::flush;
  return 0;
}

}  // namespace
}  // namespace slipstream

int main(int argc, char** argv) { return slipstream::run(argc, argv); }
