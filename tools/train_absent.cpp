// `tutti train` in builds without the training layer.
#include <CLI/CLI.hpp>

#include "base/format.hpp"
#include "tools/commands.hpp"

namespace tutti::tools {

void add_train(CLI::App& app, const std::vector<std::string>& /*arguments*/, int& /*status*/) {
  CLI::App* command = app.add_subcommand("train", "trains a small GPT over all ranks");
  command->footer("(not in this build)");
  command->allow_extras();
  command->callback([] {
    throw_error(Code::Unsupported,
                "this build has no training layer: install OpenBLAS (libopenblas-dev), configure "
                "and build again");
  });
}

}  // namespace tutti::tools
