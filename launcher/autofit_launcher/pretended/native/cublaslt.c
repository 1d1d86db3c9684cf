// libcublasLt: descriptors, and one algorithm for every product, which wants no workspace.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEURISTIC_BYTES 104 // sizeof(cublasLtMatmulHeuristicResult_t)

static int made(void **out) { return !(*out = calloc(1, 64)); }
static int gone(void *one) {
  free(one);
  return 0;
}
int cublasLtCreate(void **handle) { return made(handle); }
unsigned long cublasLtGetVersion(void) { return 130400; }
int cublasLtMatmulDescCreate(void **out, int compute, int scale) { return made(out); }
int cublasLtMatmulDescDestroy(void *one) { return gone(one); }
int cublasLtMatmulPreferenceCreate(void **out) { return made(out); }
int cublasLtMatmulPreferenceDestroy(void *one) { return gone(one); }
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t step) { return made(out); }
int cublasLtMatrixLayoutDestroy(void *one) { return gone(one); }
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, int most,
                                   void *results, int *count) {
  memset(results, 0, HEURISTIC_BYTES);
  *count = 1;
  return 0;
}
