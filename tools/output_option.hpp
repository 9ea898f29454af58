// -o FILE: the same option for all commands that write a file. (That of `tutti perf` is nccl-tests' operator.)
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

struct OutputKind {
  std::string ending;  ///< ".svg"
  std::string what;    ///< "a picture", for --help
  std::string* path;   ///< set to the file that is named; must outlive the parsing
};

/// Adds -o to `command`: the file's ending says which of `kinds` is written.
inline void add_output(CLI::App& command, const std::vector<OutputKind>& kinds) {
  std::string all;
  for (const OutputKind& kind : kinds) all += (all.empty() ? "FILE" : ", FILE") + kind.ending + " " + kind.what;
  const auto take = [kinds, all](const std::string& file) {
    for (const OutputKind& kind : kinds) {
      if (!file.ends_with(kind.ending)) continue;
      *kind.path = file;
      return;
    }
    throw CLI::ValidationError("-o " + file, "its ending says what is written: " + all);
  };
  command.add_option_function<std::string>("-o", take, "writes a file: " + all)->type_name("FILE");
}

}  // namespace tutti::tools
