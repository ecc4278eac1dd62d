// The files that a server with TLS needs.
#pragma once

#include <filesystem>

namespace serval::server {

// Both in PEM format. Without a certificate, connections are plain.
struct TlsFiles {
  std::filesystem::path certificate = {};  // the server's, then those of intermediate authorities
  std::filesystem::path key = {};          // the certificate's; empty: it is in the certificate's file
};

}  // namespace serval::server
