/*===- TestKernels.c - Kernels of the hand-built plan ----------------------===*\
|*
|* Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* In the form that the compiler emits: pointers to views, then integers.
|*
\*===----------------------------------------------------------------------===*/

#include <stdint.h>

/* x[b, i] = 0.01 (i + 1) sum over s of ids[b, s]; views ids, x; batch, seq, in */
void embed(void *const *views, const int64_t *n) {
  const int32_t *ids = views[0];
  float *x = views[1];
  for (int64_t b = 0; b < n[0]; ++b) {
    int64_t sum = 0;
    for (int64_t s = 0; s < n[1]; ++s) {
      sum += ids[b * n[1] + s];
    }
    for (int64_t i = 0; i < n[2]; ++i) {
      x[b * n[2] + i] = 0.01f * (float)(i + 1) * (float)sum;
    }
  }
}

/* kept[b, o] = h[b, o] + iteration + global o; views h, kept;
   batch, out, begin of out, iteration */
void keep(void *const *views, const int64_t *n) {
  const float *h = views[0];
  float *kept = views[1];
  for (int64_t b = 0; b < n[0]; ++b) {
    for (int64_t o = 0; o < n[1]; ++o) {
      kept[b * n[1] + o] = h[b * n[1] + o] + (float)(n[3] + n[2] + o);
    }
  }
}

/* x[b, i] += 0.1 whole[b, i]; views whole, x; batch, in, out */
void mix(void *const *views, const int64_t *n) {
  const float *whole = views[0];
  float *x = views[1];
  for (int64_t b = 0; b < n[0]; ++b) {
    for (int64_t i = 0; i < n[1]; ++i) {
      x[b * n[1] + i] += 0.1f * whole[b * n[2] + i];
    }
  }
}

/* loss = sum of x, plus the step and the seed on the first device;
   views x, step, seed, loss; batch, in, begin of batch */
void total(void *const *views, const int64_t *n) {
  const float *x = views[0];
  float sum = 0;
  for (int64_t i = 0; i < n[0] * n[1]; ++i) {
    sum += x[i];
  }
  if (n[2] == 0 && n[0] > 0) {
    sum += (float)*(const int32_t *)views[1] * 100.0f +
           (float)*(const int32_t *)views[2] * 1000.0f;
  }
  *(float *)views[3] = sum;
}

/* first[i] += gradient[i]; views gradient, first; in, out */
void accumulate(void *const *views, const int64_t *n) {
  const float *gradient = views[0];
  float *first = views[1];
  for (int64_t i = 0; i < n[0] * n[1]; ++i) {
    first[i] += gradient[i];
  }
}

/* part = half the sum of squares of x, gradient = x; views x, gradient, part;
   batch, in */
void half_square(void *const *views, const int64_t *n) {
  const float *x = views[0];
  float *gradient = views[1];
  float sum = 0;
  for (int64_t i = 0; i < n[0] * n[1]; ++i) {
    sum += 0.5f * x[i] * x[i];
    gradient[i] = x[i];
  }
  *(float *)views[2] = sum;
}

/* v[i] = first + i; views v; first, count */
void number(void *const *views, const int64_t *n) {
  for (int64_t i = 0; i < n[1]; ++i) {
    ((float *)views[0])[i] = (float)(n[0] + i);
  }
}
