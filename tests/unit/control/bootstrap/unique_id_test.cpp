#include "control/bootstrap/unique_id.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tutti/error.hpp"

namespace tutti::control {
namespace {

UniqueId some_id() {
  UniqueId id;
  id.key = random_key();
  id.host = 0x0123456789abcdef;
  id.port = 4711;
  id.addresses = {Address::loopback(), resolve("::1").at(0), resolve("10.1.2.3").at(0)};
  return id;
}

bool accepted(const UniqueId::Bytes& bytes) {
  try {
    UniqueId::from_bytes(bytes);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return false;
  }
}

TEST(UniqueId, GoesThroughBytesAndTextUnchanged) {
  const UniqueId id = some_id();
  EXPECT_EQ(UniqueId::from_bytes(id.to_bytes()), id);
  EXPECT_EQ(UniqueId::from_hex(id.hex()), id);
  EXPECT_EQ(id.hex().size(), 256u);
}

TEST(UniqueId, EveryChangedByteIsNoticed) {
  const UniqueId::Bytes good = some_id().to_bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    UniqueId::Bytes changed = good;
    changed[i] ^= 0x20;
    EXPECT_FALSE(accepted(changed)) << "byte " << i;
  }
}

TEST(UniqueId, RandomBytesAfterAValidMagicAreRejected) {
  std::mt19937 random(1);
  const UniqueId::Bytes good = some_id().to_bytes();
  for (int round = 0; round < 20000; ++round) {
    UniqueId::Bytes bytes = good;
    for (size_t i = round % 2 == 0 ? 0 : 8; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(random());
    EXPECT_FALSE(accepted(bytes));
  }
  EXPECT_FALSE(accepted(UniqueId::Bytes{}));
}

TEST(UniqueId, InvalidContentsWithAValidChecksumAreRejected) {
  UniqueId no_port = some_id(), no_address = some_id(), odd_family = some_id();
  no_port.port = 0;
  no_address.addresses.clear();
  odd_family.addresses[1].family = 5;
  for (const UniqueId& id : {no_port, no_address, odd_family}) EXPECT_FALSE(accepted(id.to_bytes()));
}

TEST(UniqueId, InvalidTextIsRejected) {
  for (const std::string& text : {std::string(), std::string("hello"), std::string(255, 'a'), std::string(256, 'z')}) {
    EXPECT_THROW(UniqueId::from_hex(text), Error) << text;
  }
}

}  // namespace
}  // namespace tutti::control
