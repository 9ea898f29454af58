// Random numbers, keys, and the proof that both ends of a connection know a key.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// A 256-bit key. Anyone who knows it may join the job.
using Key = std::array<uint8_t, 32>;

void random_bytes(void* into, size_t size);
Key random_key();
uint64_t random_u64();
/// `bytes` random bytes, in hexadecimal.
std::string random_hex(size_t bytes);

/// A key derived from a text that all ranks know: only as secret as the text.
Key derive_key(std::string_view words);
/// A public name of a key, 32 hexadecimal digits, that does not reveal the key.
std::string public_name(const Key& key);
/// BLAKE2b of `bytes`, the first 64 bits.
uint64_t hash64(std::string_view bytes);

std::string to_hex(const void* bytes, size_t size);
/// False unless `text` is exactly `size` bytes in hexadecimal.
bool from_hex(std::string_view text, void* into, size_t size);

/// The keyed challenge that opens every connection. All messages have a fixed size, so nothing that an unauthenticated
/// peer sends is parsed:
///
///   server → client   Hello   magic and version, server's nonce
///   client → server   Claim   magic and version, name of the key, client's nonce,
///                             keyed hash of ("client", both nonces)
///   server → client   Proof   keyed hash of ("server", both nonces)
///
/// The hash is BLAKE2b-256 with the key. The role prevents reflecting a proof to its author, the nonces prevent replay;
/// comparisons take constant time. It authenticates; it does not encrypt.
namespace challenge {

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'U', 'T', 'T', 'I', 0, 0, 2};  // the last byte: version
using Nonce = std::array<uint8_t, 32>;
using Hash = std::array<uint8_t, 32>;

/// Sent in place of a Hello's magic: the server has no descriptor left and closes this connection.
inline constexpr std::array<uint8_t, 8> kNoDescriptor = {'T', 'U', 'T', 'T', 'I', 0, 0xff, 0xff};

struct Hello {
  std::array<uint8_t, 8> magic = kMagic;
  Nonce nonce{};
};
struct Claim {
  std::array<uint8_t, 8> magic = kMagic;
  std::array<char, 32> key_name{};
  Nonce nonce{};
  Hash proof{};
};
struct Proof {
  Hash proof{};
};
/// Sent in place of a proof if the server does not know the key or rejects the claim.
inline constexpr Proof kUnknownKey{};
static_assert(sizeof(Hello) == 40 && sizeof(Claim) == 104 && sizeof(Proof) == 32);

Hello make_hello();
Claim make_claim(const Key& key, const Hello& hello);
/// True if the claim proves knowledge of `key`, in answer to `hello`.
bool check_claim(const Key& key, const Hello& hello, const Claim& claim);
Proof make_proof(const Key& key, const Hello& hello, const Claim& claim);
bool check_proof(const Key& key, const Hello& hello, const Claim& claim, const Proof& proof);

}  // namespace challenge
}  // namespace tutti
