// libcublas: handles and answers; a product is a call that does nothing (operators.py computes it where it is wanted).
#include <stdlib.h>

int cublasCreate_v2(void **handle) { return !(*handle = calloc(1, 64)); }
int cublasDestroy_v2(void *handle) {
  free(handle);
  return 0;
}
int cublasGetMathMode(void *handle, int *mode) { return *mode = 0; }
int cublasGetPointerMode_v2(void *handle, int *mode) { return *mode = 0; }
int cublasGetVersion_v2(void *handle, int *version) {
  *version = 130400;
  return 0;
}
const char *cublasGetStatusString(int status) { return "not played"; }
const char *cublasGetStatusName(int status) { return "not played"; }
