// tutti env: the environment variables, their values, accepted values and meaning.
#include "base/env.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/spelling.hpp"
#include "tools/commands.hpp"

namespace tutti::tools {

void add_env(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("env", "the environment variables: values now in force, meaning, defaults");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "the page docs/environment.md instead");
  command->footer("Example:\n  TUTTI_LOG=info tutti env\n");
  command->callback([markdown, &status] {
    const std::string text = *markdown ? env_markdown() : env_as_text();
    std::fputs(text.c_str(), stdout);
    for (const std::string& name : unknown_variables()) {
      std::fprintf(stderr, "tutti env: %s is set, but there is no such variable%s\n", name.c_str(),
                   did_you_mean(name, variable_names()).c_str());
      status = 1;
    }
  });
}

}  // namespace tutti::tools
