// TLS of the server's connections, over OpenSSL.
#pragma once

#include <filesystem>
#include <memory>

#include "boost/asio/ssl/context.hpp"
#include "boost/system/error_code.hpp"
#include "engine/server/http/tls_files.h"

namespace serval::server {

// Returns null if `files` names no certificate. Accepts TLS 1.2 and 1.3. Throws Error(kRuntime) with one line
// if a file cannot be read, is not PEM, has an encrypted key, or if the key does not match the certificate.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// True if a handshake failed because the client sent an HTTP request instead.
bool is_plain_http(const boost::system::error_code& error);

}  // namespace serval::server
