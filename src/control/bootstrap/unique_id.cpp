#include "control/bootstrap/unique_id.hpp"

#include <algorithm>
#include <cstring>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::control {
namespace {

// Layout, all numbers little-endian: magic 8 · key 32 · host 8 · port 2 · number of addresses 1 · zero 1 ·
// 4 × (family 1, address 16, zero 1) · checksum 4.
constexpr std::array<uint8_t, 8> kIdMagic = {'T', 'U', 'T', 'T', 'I', 'I', 'D', 1};
constexpr size_t kKeyAt = 8, kHostAt = 40, kPortAt = 48, kCountAt = 50, kAddressesAt = 52, kSlot = 18, kSumAt = 124;
static_assert(kAddressesAt + UniqueId::kMaxAddresses * kSlot == kSumAt && kSumAt + 4 == UniqueId::kBytes);

template <class T>
void put(UniqueId::Bytes& bytes, size_t at, T number) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<uint8_t>(number >> (8 * i));
}

template <class T>
T get(const UniqueId::Bytes& bytes, size_t at) {
  T number = 0;
  for (size_t i = 0; i < sizeof(T); ++i) number |= static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i));
  return number;
}

uint32_t checksum(const UniqueId::Bytes& bytes) {
  return static_cast<uint32_t>(hash64({reinterpret_cast<const char*>(bytes.data()), kSumAt}));
}

[[noreturn]] void reject(const char* why) {
  throw_error(Code::InvalidArgument,
              "this is not a Tutti unique id: {}; pass the 128 bytes that tuttiGetUniqueId (in C++ "
              "Communicator::unique_id) made, unchanged",
              why);
}

}  // namespace

UniqueId::Bytes UniqueId::to_bytes() const {
  Bytes bytes{};
  std::copy(kIdMagic.begin(), kIdMagic.end(), bytes.begin());
  std::copy(key.begin(), key.end(), bytes.begin() + kKeyAt);
  put(bytes, kHostAt, host);
  put(bytes, kPortAt, port);
  const size_t count = std::min(addresses.size(), kMaxAddresses);
  bytes[kCountAt] = static_cast<uint8_t>(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[kAddressesAt + i * kSlot] = addresses[i].family;
    std::memcpy(&bytes[kAddressesAt + i * kSlot + 1], addresses[i].bytes.data(), addresses[i].bytes.size());
  }
  put(bytes, kSumAt, checksum(bytes));
  return bytes;
}

UniqueId UniqueId::from_bytes(const Bytes& bytes) {
  if (!std::equal(kIdMagic.begin(), kIdMagic.end() - 1, bytes.begin())) reject("its magic number is wrong");
  if (bytes[7] != kIdMagic[7]) {
    throw_error(Code::InvalidArgument,
                "this unique id has version {}, this library makes version {}: use one version "
                "of Tutti in all processes of a job",
                bytes[7], kIdMagic[7]);
  }
  if (get<uint32_t>(bytes, kSumAt) != checksum(bytes)) reject("its checksum is wrong");
  UniqueId id;
  std::copy_n(bytes.begin() + kKeyAt, id.key.size(), id.key.begin());
  id.host = get<uint64_t>(bytes, kHostAt);
  id.port = get<uint16_t>(bytes, kPortAt);
  const size_t count = bytes[kCountAt];
  if (id.port == 0) reject("its port is 0");
  if (count < 1 || count > kMaxAddresses) reject("it has no address, or too many");
  for (size_t i = 0; i < count; ++i) {
    Address address;
    address.family = bytes[kAddressesAt + i * kSlot];
    std::memcpy(address.bytes.data(), &bytes[kAddressesAt + i * kSlot + 1], address.bytes.size());
    if (!address.valid()) reject("an address of it is neither IPv4 nor IPv6");
    id.addresses.push_back(address);
  }
  return id;
}

std::string UniqueId::hex() const {
  const Bytes bytes = to_bytes();
  return to_hex(bytes.data(), bytes.size());
}

UniqueId UniqueId::from_hex(std::string_view text) {
  Bytes bytes;
  if (!tutti::from_hex(text, bytes.data(), bytes.size())) {
    throw_error(Code::InvalidArgument, "a unique id in text has {} hexadecimal digits; this text has {}", 2 * kBytes,
                counted(text.size(), "character"));
  }
  return from_bytes(bytes);
}

}  // namespace tutti::control
