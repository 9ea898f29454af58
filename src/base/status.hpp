// The result of a data path: Ok, or a code and the text of the code that detected the error.
#pragma once

#include <string>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {

struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string text;

  bool ok() const { return code == Code::Ok; }
  static Status from(const Error& error) { return {error.code(), error.what()}; }
  void throw_if_bad() const {
    if (!ok()) throw Error(code, text);
  }
};

}  // namespace tutti
