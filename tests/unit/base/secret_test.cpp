#include "base/secret.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tutti {
namespace {

using namespace challenge;

struct Meeting {
  Key key = random_key();
  Hello hello = make_hello();
  Claim claim = make_claim(key, hello);
  Proof proof = make_proof(key, hello, claim);
};

TEST(Challenge, AcceptsBothEndsWithTheKey) {
  const Meeting m;
  EXPECT_TRUE(check_claim(m.key, m.hello, m.claim));
  EXPECT_TRUE(check_proof(m.key, m.hello, m.claim, m.proof));
}

TEST(Challenge, RejectsAnotherKey) {
  const Meeting m;
  const Key other = random_key();
  EXPECT_FALSE(check_claim(other, m.hello, m.claim));
  EXPECT_FALSE(check_proof(other, m.hello, m.claim, m.proof));
}

TEST(Challenge, RejectsAReplayedClaimOrProof) {
  const Meeting m;
  EXPECT_FALSE(check_claim(m.key, make_hello(), m.claim));
  Claim fresh = make_claim(m.key, m.hello);
  EXPECT_FALSE(check_proof(m.key, m.hello, fresh, m.proof));
}

TEST(Challenge, RejectsAReflectedProof) {
  const Meeting m;
  EXPECT_FALSE(check_proof(m.key, m.hello, m.claim, Proof{m.claim.proof}));
}

TEST(Challenge, EveryBitOfAProofCounts) {
  const Meeting m;
  for (size_t bit = 0; bit < 256; ++bit) {
    Claim bent = m.claim;
    bent.proof[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_FALSE(check_claim(m.key, m.hello, bent)) << bit;
  }
}

TEST(Challenge, RejectsAnotherVersion) {
  Meeting m;
  m.claim.magic[7] ^= 3;
  EXPECT_FALSE(check_claim(m.key, m.hello, m.claim));
}

TEST(Secret, KeysAndNamesAreDistinct) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(public_name(random_key()));
  EXPECT_EQ(names.size(), 100u);
  EXPECT_EQ(derive_key("job 1"), derive_key("job 1"));
  EXPECT_NE(derive_key("job 1"), derive_key("job 2"));
}

TEST(Secret, HexGoesBothWaysAndRejectsTheRest) {
  const Key key = random_key();
  Key back{};
  EXPECT_TRUE(from_hex(to_hex(key.data(), key.size()), back.data(), back.size()));
  EXPECT_EQ(key, back);
  EXPECT_FALSE(from_hex("", back.data(), back.size()));
  EXPECT_FALSE(from_hex(std::string(64, 'g'), back.data(), back.size()));
  EXPECT_FALSE(from_hex(std::string(62, '0'), back.data(), back.size()));
  EXPECT_FALSE(from_hex(std::string(66, '0'), back.data(), back.size()));
}

}  // namespace
}  // namespace tutti
