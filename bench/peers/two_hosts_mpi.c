// two_hosts_mpi BYTES CALLS ...: times MPI_Allreduce of floats, back to back; prints bytes and microseconds a call of
// the slowest rank. Built by bench/two_hosts with the compiler of each MPI.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int run(size_t bytes, int calls) {
  const int count = (int)(bytes / sizeof(float));
  float* in = malloc(bytes);
  float* out = malloc(bytes);
  if (in == NULL || out == NULL) return 1;
  for (int i = 0; i < count; ++i) in[i] = (float)(i % 8);
  for (int i = 0; i < 5; ++i) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const double mine = (MPI_Wtime() - begin) / calls;
  double slowest = 0;
  int rank = 0, ranks = 0, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < count; ++i) wrong += out[i] != (float)(i % 8 * ranks);
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf("%zu %.3f\n", bytes, slowest * 1e6);
  free(in);
  free(out);
  return wrong;
}

int main(int argc, char** argv) {
  int wrong = 0;
  MPI_Init(&argc, &argv);
  for (int i = 1; i + 1 < argc; i += 2) wrong += run(strtoull(argv[i], NULL, 10), atoi(argv[i + 1]));
  MPI_Finalize();
  return wrong != 0;
}
