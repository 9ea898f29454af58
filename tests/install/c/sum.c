#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  tuttiComm_t comm;
  int rank, ranks;
  if (tuttiCommInitEnv(&comm) || tuttiCommUserRank(comm, &rank) || tuttiCommCount(comm, &ranks)) goto failed;
  float mine = (float)(rank + 1), sum;
  if (tuttiAllReduce(&mine, &sum, 1, tuttiFloat32, tuttiSum, comm, NULL)) goto failed;
  printf("rank %d of %d: the sum is %g\n", rank, ranks, sum);
  if (tuttiCommDestroy(comm) == tuttiSuccess) return 0;
failed:
  fprintf(stderr, "%s\n", tuttiGetLastError());
  return 1;
}
