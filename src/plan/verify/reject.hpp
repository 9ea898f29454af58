// How a check fails: it throws the verdict's text to verify().
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace tutti::plan::verifier {

class Rejected : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Nothing is wrong that was seen, but not all was.
class TooLarge : public Rejected {
 public:
  using Rejected::Rejected;
};

template <class... Args>
[[noreturn]] void too_large(fmt::format_string<Args...> text, Args&&... args) {
  throw TooLarge("the plans are too large to prove: " + fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
  throw Rejected(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tutti::plan::verifier
