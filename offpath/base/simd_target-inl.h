// What the compiler may use for each target. To be included after hwy/highway.h and before
// HWY_BEFORE_NAMESPACE(), by every file that has bodies for AVX3_DL.
//
// Highway 1.0.3 tests for AVX-512 VNNI at run time where it chooses AVX3_DL but names AVX-VNNI to
// the compiler. The string is written out whole, since what is inlined into a function may need
// nothing that the function does not have.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR                                            \
  HWY_TARGET_STR_AVX3                                             \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg," \
  "avx512vpopcntdq,avx512vnni"
#endif
