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

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
  throw Rejected(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tutti::plan::verifier
