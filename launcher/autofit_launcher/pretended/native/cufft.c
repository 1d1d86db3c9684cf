// libcufft: plans. PRETENDED_FFT_WORK: the work area as a multiple of a transform's values; cuFFT's own is not known.
#include <stdlib.h>

int cufftCreate(int *plan) {
  static int count;
  *plan = ++count;
  return 0;
}
int cufftDestroy(int plan) { return 0; }
int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *in, long long in_stride, long long in_distance, int in_type,
                        long long *out, long long out_stride, long long out_distance, int out_type, long long batch, size_t *work,
                        int type) {
  double values = (double)batch;
  for (int i = 0; i < rank; i++)
    values *= (double)n[i];
  const char *share = getenv("PRETENDED_FFT_WORK");
  *work = share ? (size_t)(atof(share) * values * 8) : 0;
  return 0;
}
int cufftGetVersion(int *version) {
  *version = 12200;
  return 0;
}
