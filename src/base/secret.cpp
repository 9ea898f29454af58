#include "base/secret.hpp"

#include <sodium.h>

#include <cstring>

#include "base/format.hpp"

namespace tutti {
namespace {

/// libsodium must be initialised before its first use; repeating it is harmless and cheap.
void ready() {
  if (sodium_init() < 0) throw_error(Code::SystemError, "libsodium cannot start: no source of random numbers");
}

challenge::Hash keyed_hash(const Key& key, std::string_view role, const challenge::Nonce& server,
                           const challenge::Nonce& client) {
  challenge::Hash hash{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), hash.size());
  const auto feed = [&](const void* data, size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char*>(data), size);
  };
  feed("tutti challenge 1 ", 18);
  feed(role.data(), role.size());  // both roles have six letters, so no two inputs are equal
  feed(server.data(), server.size());
  feed(client.data(), client.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

}  // namespace

void random_bytes(void* into, size_t size) {
  ready();
  randombytes_buf(into, size);
}

Key random_key() {
  Key key;
  random_bytes(key.data(), key.size());
  return key;
}

uint64_t random_u64() {
  uint64_t number = 0;
  random_bytes(&number, sizeof number);
  return number;
}

std::string random_hex(size_t bytes) {
  std::string raw(bytes, '\0');
  random_bytes(raw.data(), raw.size());
  return to_hex(raw.data(), raw.size());
}

Key derive_key(std::string_view words) {
  ready();
  static constexpr char kSalt[] = "tutti key from words 1";
  Key key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(words.data()), words.size(),
                     reinterpret_cast<const unsigned char*>(kSalt), sizeof kSalt - 1);
  return key;
}

std::string public_name(const Key& key) {
  ready();
  static constexpr char kLabel[] = "tutti name of a key 1";
  std::array<uint8_t, 16> name{};
  crypto_generichash(name.data(), name.size(), reinterpret_cast<const unsigned char*>(kLabel), sizeof kLabel - 1,
                     key.data(), key.size());
  return to_hex(name.data(), name.size());
}

uint64_t hash64(std::string_view bytes) {
  ready();
  std::array<uint8_t, 32> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     nullptr, 0);
  uint64_t first = 0;
  std::memcpy(&first, hash.data(), sizeof first);
  return first;
}

std::string to_hex(const void* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    const uint8_t byte = static_cast<const uint8_t*>(bytes)[i];
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool from_hex(std::string_view text, void* into, size_t size) {
  if (text.size() != 2 * size) return false;
  size_t bytes = 0;
  const char* end = nullptr;
  return sodium_hex2bin(static_cast<unsigned char*>(into), size, text.data(), text.size(), nullptr, &bytes, &end) ==
             0 &&
         bytes == size && end == text.data() + text.size();
}

namespace challenge {

Hello make_hello() {
  Hello hello;
  random_bytes(hello.nonce.data(), hello.nonce.size());
  return hello;
}

Claim make_claim(const Key& key, const Hello& hello) {
  Claim claim;
  random_bytes(claim.nonce.data(), claim.nonce.size());
  const std::string name = public_name(key);
  std::memcpy(claim.key_name.data(), name.data(), claim.key_name.size());
  claim.proof = keyed_hash(key, "client", hello.nonce, claim.nonce);
  return claim;
}

bool check_claim(const Key& key, const Hello& hello, const Claim& claim) {
  const Hash expected = keyed_hash(key, "client", hello.nonce, claim.nonce);
  return claim.magic == kMagic && sodium_memcmp(expected.data(), claim.proof.data(), expected.size()) == 0;
}

Proof make_proof(const Key& key, const Hello& hello, const Claim& claim) {
  return {keyed_hash(key, "server", hello.nonce, claim.nonce)};
}

bool check_proof(const Key& key, const Hello& hello, const Claim& claim, const Proof& proof) {
  const Hash expected = keyed_hash(key, "server", hello.nonce, claim.nonce);
  return sodium_memcmp(expected.data(), proof.proof.data(), expected.size()) == 0;
}

}  // namespace challenge
}  // namespace tutti
