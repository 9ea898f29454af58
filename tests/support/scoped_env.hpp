// Sets or removes an environment variable during a test, and makes Tutti read it again.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "base/env.hpp"

namespace tutti::test {

/// Call while no other thread runs. If the value is invalid, the constructor restores the variable and throws.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    put(value);
    try {
      reload_env();
    } catch (...) {
      put(old_);
      throw;
    }
  }
  ~ScopedEnv() {
    put(old_);
    reload_env();
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void put(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name_.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> old_;
};

}  // namespace tutti::test
