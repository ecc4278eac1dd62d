// Certificates for tests, made when a test runs.
#pragma once

#include <string>

namespace serval::testing {

struct Certificate {
  std::string certificate, key;  // in PEM format
};

// A self-signed certificate for localhost, with a new key on the curve P-256. With a passphrase, the key is
// encrypted.
Certificate make_certificate(const std::string& passphrase = {});

}  // namespace serval::testing
