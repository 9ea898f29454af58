// `tutti` is two programs, so that what most people need first is built in a minute: `tutti` itself measures, starts,
// explains and informs; `tutti-extra`, beside it, has all commands, and `tutti` becomes it for those of this list.
#pragma once

namespace CLI {
class App;
}

namespace tutti::tools {

/// Lists the commands of tutti-extra for --help, and for the names that a mistyped one may have meant.
void list_extra_commands(CLI::App& app);

/// Is one of them called, or help for one? It becomes tutti-extra then, and returns only where that cannot be started:
/// with the exit status, after the reason on stderr. −1: it is another command.
int become_extra(int argc, char** argv);

}  // namespace tutti::tools
