#include "engine/server/http/tls.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& problem) {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", file.string(), problem));
}

void check_readable(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || stream.peek() == std::ifstream::traits_type::eof())
    refuse(file,
           fmt::format("cannot be read{}{}", errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno)));
}

void load_key(ssl::context& context, const std::filesystem::path& file) {
  check_readable(file);
  bool is_encrypted = false;
  // OpenSSL's own callback would wait for a passphrase from the terminal.
  context.set_password_callback([&](size_t, ssl::context::password_purpose) {
    is_encrypted = true;
    return std::string();
  });
  error_code error;
  context.use_private_key_file(file.string(), ssl::context::pem, error);
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); });
  if (is_encrypted) refuse(file, "the key is encrypted; expected a private key without a passphrase");
  if (error) refuse(file, "no private key in PEM format (" + error.message() + ")");
}

void load_certificate(ssl::context& context, const std::filesystem::path& file) {
  check_readable(file);
  error_code error;
  context.use_certificate_chain_file(file.string(), error);
  if (error) refuse(file, "no certificate in PEM format that can be used (" + error.message() + ")");
}

}  // namespace

std::unique_ptr<ssl::context> make_tls_context(const TlsFiles& files) {
  if (files.certificate.empty()) {
    if (!files.key.empty()) refuse(files.key, "a private key without a certificate; set both");
    return nullptr;
  }
  const std::filesystem::path& key = files.key.empty() ? files.certificate : files.key;
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  load_key(*context, key);
  load_certificate(*context, files.certificate);
  // OpenSSL drops a key that is not the certificate's when it loads the certificate.
  if (SSL_CTX_check_private_key(native) != 1)
    refuse(key, fmt::format("the key does not match the certificate in {}", files.certificate.string()));
  return context;
}

bool is_plain_http(const error_code& error) {
  if (error.category() != boost::asio::error::get_ssl_category()) return false;
  return ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace serval::server
