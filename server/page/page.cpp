// See page.h.
#include "server/page/page.h"

#include "server/page/page_sources.h"
#include "server/sha256.h"

namespace slipstream {
namespace {

std::string base64(const Sha256& bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) out.push_back(i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63]);
  }
  return out;
}

std::string policy() {
  return "default-src 'none'; script-src 'sha256-" + base64(sha256(page_sources::kScript)) + "'; style-src 'sha256-" +
         base64(sha256(page_sources::kStyle)) +
         "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

std::string document() {
  std::string out(page_sources::kDocument);
  for (const auto& [mark, source] : {std::pair{std::string_view("/*style.css*/"), page_sources::kStyle},
                                     std::pair{std::string_view("/*chat.js*/"), page_sources::kScript}})
    out.replace(out.find(mark), mark.size(), source);
  return out;
}

}  // namespace

HttpResponse page() {
  static const std::string body = document(), rules = policy();
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.headers.emplace_back("Content-Security-Policy", rules);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.body = body;
  return response;
}

}  // namespace slipstream
