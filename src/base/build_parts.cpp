#include "base/build_parts.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr BuildPart kParts[] = {
#define BUILD_PART(name, in, words) {name, in, words},
#include <build_parts.def>  // written by cmake/Parts.cmake
#undef BUILD_PART
};

}  // namespace

std::span<const BuildPart> build_parts() { return kParts; }

const BuildPart* find_build_part(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kParts), std::end(kParts), [&](const BuildPart& p) { return p.name == name; });
  return found == std::end(kParts) ? nullptr : found;
}

}  // namespace tutti
