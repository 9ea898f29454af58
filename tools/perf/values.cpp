#include "tools/perf/values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.hpp"
#include "tools/perf/small_float.hpp"

namespace tutti::tools {
namespace {

// ---- integers as 64-bit words, of which the lowest bytes are used

int bits_of(DType type) { return static_cast<int>(8 * size_of(type)); }
uint64_t mask_of(DType type) { return ~uint64_t{0} >> (64 - bits_of(type)); }

/// The number in the lowest bytes, sign-extended.
int64_t extended(uint64_t bits, DType type) {
  const int spare = 64 - bits_of(type);
  return static_cast<int64_t>(bits << spare) >> spare;
}

uint64_t largest_integer(DType type) { return is_signed_integer(type) ? mask_of(type) >> 1 : mask_of(type); }

// ---- choosing, without divisions: most of the time of a check goes into these

/// A number below `end`, which may be 0 to 2^63, from 63 random bits.
uint64_t below(uint64_t end, uint64_t random) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(random) * end) >> 63);
}

/// A number from 1 to `most`, signed if `with_sign`.
int64_t draw(uint64_t random, uint64_t most, bool with_sign) {
  const auto size = static_cast<int64_t>(1 + below(most, random >> 1));
  return with_sign && (random & 1) != 0 ? -size : size;
}

/// The ranks, rotated differently in every element, so that their roles change.
int turned(const Spot& spot, int rank) {
  const int turn = static_cast<int>(below(static_cast<uint64_t>(spot.ranks), mix(spot.seed, spot.place, 1) >> 1));
  return rank + turn < spot.ranks ? rank + turn : rank + turn - spot.ranks;
}

uint64_t own(const Spot& spot, int rank) { return mix(spot.seed, spot.place, 16 + static_cast<uint64_t>(rank)); }

/// A summand of an exact sum: over all ranks, absolute values add up to `limit` at most.
int64_t summand(const Spot& spot, int rank, uint64_t limit, bool with_sign) {
  const uint64_t contributors = std::min<uint64_t>(static_cast<uint64_t>(spot.ranks), limit);
  if (static_cast<uint64_t>(turned(spot, rank)) >= contributors) return 0;
  return draw(own(spot, rank), limit / contributors, with_sign);
}

/// A summand of a sum that is `ranks` times an integer, within the same bound: the average, plus or minus the
/// difference that the other rank of a pair compensates.
int64_t averaged(const Spot& spot, int rank, uint64_t limit) {
  const uint64_t share = limit / static_cast<uint64_t>(spot.ranks);
  const uint64_t random = mix(spot.seed, spot.place, 2);
  // With a share of 1 an element has either an average or differences.
  const bool has_average = share > 1 || (random & 2) != 0;
  const uint64_t for_difference = share > 1 ? share / 2 : 1 - static_cast<uint64_t>(has_average);
  const int64_t average = has_average ? draw(std::rotr(random, 2), share - for_difference, true) : 0;
  const int place = turned(spot, rank);
  if (for_difference == 0 || (place ^ 1) >= spot.ranks) return average;
  const uint64_t pair = mix(spot.seed, spot.place, 16 + static_cast<uint64_t>(place / 2));
  const int64_t difference = draw(pair, for_difference, true);
  return place % 2 == 0 ? average + difference : average - difference;
}

/// A summand of an integer sum that is just below (or at) a multiple of `ranks`, so that rounding sum/ranks hides
/// neither a missing nor a doubled summand: q from each rank, or q+1 from all but one, with one sign. One rank of each
/// pair gives some of its share to the other.
uint64_t near_multiple(const Spot& spot, int rank, uint64_t limit, bool with_sign) {
  const auto ranks = static_cast<uint64_t>(spot.ranks);
  const uint64_t random = mix(spot.seed, spot.place, 2);
  const bool at_multiple = (random & 1) != 0;
  const uint64_t most = at_multiple ? limit / ranks : (limit - (ranks - 1)) / ranks;
  const uint64_t average = at_multiple ? 1 + (random >> 2) % most : (random >> 2) % (most + 1);
  const int place = turned(spot, rank);
  uint64_t value = average + static_cast<uint64_t>(!at_multiple && place + 1 < spot.ranks);
  if (average > 1 && (place ^ 1) < spot.ranks) {
    const uint64_t given = mix(spot.seed, spot.place, 16 + static_cast<uint64_t>(place / 2)) % average;
    value = place % 2 == 0 ? value + given : value - given;
  }
  return with_sign && (random & 2) != 0 ? 0 - value : value;
}

/// A factor of an exact product: powers of two whose exponents add up to `budget` at most, one with a full mantissa.
uint64_t factor(const Spot& spot, int rank, FloatFormat format) {
  const auto budget = static_cast<uint64_t>(std::min(-format.lowest_exponent(), format.highest_exponent()));
  const int64_t exponent = summand(spot, rank, budget, true);
  const uint64_t random = mix(own(spot, rank), 3);
  const uint64_t fraction = random >> (64 - format.mantissa_bits);
  const double mantissa =
      turned(spot, rank) == 0 ? 1 + std::ldexp(static_cast<double>(fraction), -format.mantissa_bits) : 1;
  return encode(std::ldexp((random & 1) != 0 ? -mantissa : mantissa, static_cast<int>(exponent)), format);
}

/// Any normal number.
uint64_t any_float(uint64_t random, FloatFormat format) {
  const int exponents = (1 << format.exponent_bits) - 2;  // neither the lowest, zero's, nor the highest, infinity's
  const uint64_t exponent = 1 + (random & 0xffff) % static_cast<uint64_t>(exponents);
  const uint64_t sign = (random >> 16) & 1;
  const uint64_t mantissa = mix(random, 4) >> (64 - format.mantissa_bits);
  return (((sign << format.exponent_bits) | exponent) << format.mantissa_bits) | mantissa;
}

uint64_t float_value(const Spot& spot, int rank, DType type, Op op) {
  const FloatFormat format = format_of(type);
  const auto limit = static_cast<uint64_t>(format.exact_integers());
  if (chooses(op)) return any_float(own(spot, rank), format);
  if (op == Op::Prod) return factor(spot, rank, format);
  if (op == Op::Avg && static_cast<uint64_t>(spot.ranks) <= limit) {
    return encode(static_cast<double>(averaged(spot, rank, limit)), format);
  }
  // An input of a pre-multiplied sum is up to twice as large as its summand.
  const auto largest = static_cast<uint64_t>(format.largest_power()) - 1;
  const uint64_t share = op == Op::PreMulSum ? std::min(limit, largest) : limit;
  const auto value = static_cast<double>(summand(spot, rank, share, true));
  if (op != Op::PreMulSum) return encode(value, format);
  return encode(value / decode(scalar_value(spot.seed, rank, type), format), format);
}

uint64_t integer_value(const Spot& spot, int rank, DType type, Op op) {
  const uint64_t random = own(spot, rank);
  if (op == Op::Avg) {
    const uint64_t limit = std::min(largest_integer(type), uint64_t{1} << 62);
    const bool many = limit >= static_cast<uint64_t>(spot.ranks);
    const uint64_t value = many ? near_multiple(spot, rank, limit, is_signed_integer(type))
                                : static_cast<uint64_t>(summand(spot, rank, limit, is_signed_integer(type)));
    return value & mask_of(type);
  }
  const bool odd = op == Op::Prod && turned(spot, rank) != 0;
  return (random | static_cast<uint64_t>(odd)) & mask_of(type);
}

/// Each bit of an AND or OR is decided by one rank: the bits by all in turn, beginning with any. So none is missed
/// unnoticed.
uint64_t bits_value(const Spot& spot, int rank, DType type, Op op) {
  if (op == Op::BitXor) return own(spot, rank) & mask_of(type);
  uint64_t decided = 0;
  for (int bit = turned(spot, rank); bit < bits_of(type); bit += spot.ranks) decided |= uint64_t{1} << bit;
  const uint64_t value = own(spot, rank) & decided;
  return op == Op::BitOr ? value : ~value & mask_of(type);
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a;
  for (const uint64_t next : {b, c}) x = tutti::mix((x ^ next) + kGoldenRatio);
  return x;
}

uint64_t copied_value(const Spot& spot, int rank, DType type) { return own(spot, rank) & mask_of(type); }

uint64_t folded_value(const Spot& spot, int rank, DType type, Op op) {
  if (acts_on_bits(op)) return bits_value(spot, rank, type, op);
  return is_float(type) ? float_value(spot, rank, type, op) : integer_value(spot, rank, type, op);
}

uint64_t scalar_value(uint64_t seed, int rank, DType type) {
  const uint64_t random = mix(seed, static_cast<uint64_t>(rank), 5);
  if (!is_float(type)) return (random | 1) & mask_of(type);
  const double size = std::ldexp(1.0, static_cast<int>((random >> 1) % 4) - 1);
  return encode((random & 1) != 0 ? -size : size, format_of(type));
}

uint64_t fold(uint64_t a, uint64_t b, DType type, Op op) {
  if (acts_on_bits(op)) return fold_numbers(a, b, op);
  if (is_float(type)) {
    const FloatFormat format = format_of(type);
    return encode(fold_numbers(decode(a, format), decode(b, format), op), format);
  }
  if (!is_signed_integer(type)) return fold_numbers(a, b, op) & mask_of(type);
  return static_cast<uint64_t>(fold_numbers(extended(a, type), extended(b, type), op)) & mask_of(type);
}

uint64_t divide(uint64_t sum, int ranks, DType type) {
  if (is_float(type)) return encode(decode(sum, format_of(type)) / ranks, format_of(type));
  if (is_signed_integer(type)) return static_cast<uint64_t>(extended(sum, type) / ranks) & mask_of(type);
  return sum / static_cast<uint64_t>(ranks);
}

uint64_t fold_of_all(const Spot& spot, DType type, Op op) {
  const auto given = [&](int rank) {
    const uint64_t value = folded_value(spot, rank, type, op);
    return op == Op::PreMulSum ? fold(value, scalar_value(spot.seed, rank, type), type, Op::Prod) : value;
  };
  uint64_t all = given(0);
  for (int rank = 1; rank < spot.ranks; ++rank) all = fold(all, given(rank), type, op);
  return op == Op::Avg ? divide(all, spot.ranks, type) : all;
}

}  // namespace tutti::tools
