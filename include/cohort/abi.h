/* Shared by the plugin interfaces of Cohort: text, export, where errors go. C99. */
#ifndef COHORT_ABI_H
#define COHORT_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define COHORT_EXPORT __declspec(dllexport)
#else
#define COHORT_EXPORT __attribute__((visibility("default")))
#endif

/* UTF-8, `size` bytes, not zero-terminated; data may be NULL when size is 0. What the host passes
 * is valid until the call returns; so is what the plugin passes back. */
typedef struct cohort_text {
  const char* data;
  size_t size;
} cohort_text;

/* Where a call that fails says why: a buffer of the host, zero-terminated, may be left untouched.
 */
typedef struct cohort_message {
  char* data;
  size_t capacity;
} cohort_message;

#ifdef __cplusplus
}
#endif
#endif
