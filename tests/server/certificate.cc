#include "tests/server/certificate.h"

#include <memory>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace serval::testing {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

Bio memory() {
  return {BIO_new(BIO_s_mem()), BIO_free};
}

std::string text_of(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace

Certificate make_certificate(const std::string& passphrase) {
  constexpr long kVersion3 = 2, kDay = 24L * 3600;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), kVersion3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDay);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const Bio certificate_text = memory(), key_text = memory();
  PEM_write_bio_X509(certificate_text.get(), certificate.get());
  PEM_write_bio_PKCS8PrivateKey(key_text.get(), key.get(), passphrase.empty() ? nullptr : EVP_aes_256_cbc(),
                                passphrase.data(), static_cast<int>(passphrase.size()), nullptr, nullptr);
  return {text_of(certificate_text), text_of(key_text)};
}

}  // namespace serval::testing
