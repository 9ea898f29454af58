// What the programs of MPI ranks share: main(), for one peer and one play.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "driver_pipes.hpp"

namespace peers {

/// Binds before the library starts, so that it sees its core. Launchers set the rank in the environment.
inline void pin_early() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return pin(std::atoi(rank));
  }
}

/// `run(folder)` plays as one rank.
template <class Run>
int mpi_main(int argc, char** argv, const char* program, Run&& run) {
  pin_early();
  MPI_Init(&argc, &argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", program);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  run(argv[1]);
  MPI_Finalize();
  return 0;
}

}  // namespace peers
